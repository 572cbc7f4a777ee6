"""Instances of dataflow patterns: ops generated from the pattern so that it matches them.

The pattern is traversed from its operands to its root. The recipe of each op returns a call with valid
attributes and shapes; operands that the pattern constrains replace the operands of the recipe. Recipes are
random and patterns constrain, so each candidate is checked with TVM's matcher, and generated again if it does
not match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import tvm
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import dpl

from annotated_region.testing.conformance.bench import Bench
from annotated_region.testing.recipes import Recipe, Workbench
from annotated_region.testing.recipes.workbench import extents_of, rank_of
from annotated_region.tvm_adapter.nodes import Constant, TypePattern
from annotated_region.tvm_adapter.ops import field_names
from annotated_region.tvm_adapter.types import expect, tensor_type

__all__ = ["add_instance", "ops_in", "unknown_in"]

T = TypeVar("T")
_TRIES = 8
_BRANCHES = (dpl.OrPattern, dpl.AndPattern)
_WRAPPERS = (dpl.AttrPattern, dpl.DataTypePattern, dpl.ShapePattern, TypePattern)
_LEAVES = (dpl.WildcardPattern, dpl.ConstantPattern, dpl.VarPattern, dpl.NotPattern)


def ops_in(pattern: dpl.DFPattern) -> list[str]:
    """The ops that a pattern names, inner ones first."""
    named = getattr(getattr(pattern, "op", None), "expr", None)
    inner = [name for part in _parts(pattern) for name in ops_in(part)]
    return [*inner, str(named.name)] if isinstance(named, tvm.ir.Op) else inner


def unknown_in(pattern: dpl.DFPattern, recipes: Mapping[str, Recipe]) -> str:
    """The reason why instances of a pattern cannot be generated; empty if they can."""
    if isinstance(pattern, dpl.CallPattern):
        op = getattr(pattern.op, "expr", None)
        if not isinstance(op, tvm.ir.Op):
            return f"it calls {pattern.op}, which is not an op name"
        if op.name not in recipes:
            return f"no recipe for {op.name}"
    elif not isinstance(
        pattern,
        (
            *_BRANCHES,
            *_WRAPPERS,
            *_LEAVES,
            dpl.TuplePattern,
            dpl.UnorderedTuplePattern,
            dpl.TupleGetItemPattern,
        ),
    ):
        return f"it holds a {type(pattern).__name__}"
    return next((why for part in _parts(pattern) if (why := unknown_in(part, recipes))), "")


def _parts(pattern: dpl.DFPattern) -> list[dpl.DFPattern]:
    """The direct sub-patterns, operands in order; none for negative patterns."""
    if isinstance(pattern, dpl.CallPattern):
        return list(pattern.args)
    if isinstance(pattern, dpl.TuplePattern | dpl.UnorderedTuplePattern):
        return list(pattern.fields)
    if isinstance(pattern, dpl.TupleGetItemPattern):
        return [pattern.tuple]
    if isinstance(pattern, _BRANCHES):
        return [pattern.left, pattern.right]
    return [pattern.pattern] if isinstance(pattern, _WRAPPERS) else []


def add_instance(bench: Bench, pattern: dpl.DFPattern, recipes: Mapping[str, Recipe]) -> bool:
    """Add ops that match the pattern to a graph; False, with the graph unchanged, if none were found."""
    for _try in range(_TRIES):
        before = bench.mark()
        try:
            root = _Instance(bench, recipes).made(pattern)
        except Exception:  # TVM raises various errors for incompatible operands
            root = None
        if root is not None and _matches(pattern, root, bench):
            return True
        bench.forget(before)
    return False


def _matches(pattern: dpl.DFPattern, root: relax.Expr, bench: Bench) -> bool:
    values = {binding.var: binding.value for binding in bench.bindings}
    value = values.get(root) if isinstance(root, relax.Var) else None
    return value is not None and pattern.extract_matched_expr(value, values) is not None


class _NoInstanceError(Exception):
    """The drawn operands are incompatible."""


class _Instance:
    """One traversal of a pattern. A sub-pattern that occurs twice denotes a single value."""

    def __init__(self, bench: Bench, recipes: Mapping[str, Recipe]) -> None:
        self.bench = bench
        self.recipes = recipes
        self.known: dict[dpl.DFPattern, relax.Expr] = {}

    def made(self, pattern: dpl.DFPattern, like: relax.Expr | None = None) -> relax.Expr:
        """A value that matches the pattern; `like` is the operand that the recipe of its user has there."""
        if pattern not in self.known:
            self.known[pattern] = self._new(pattern, like)
        return self.known[pattern]

    def _new(self, pattern: dpl.DFPattern, like: relax.Expr | None) -> relax.Expr:
        inner = self._chosen(pattern)
        if inner is not None:
            return self.made(inner, like)
        if isinstance(pattern, dpl.CallPattern):
            return self._call(pattern, {})
        if isinstance(pattern, dpl.AttrPattern):
            return self._call(expect(dpl.CallPattern, pattern.pattern), dict(pattern.attrs.items()))
        if isinstance(pattern, dpl.TupleGetItemPattern):
            return self.bench.bound(relax.TupleGetItem(self.made(pattern.tuple), max(pattern.index, 0)))
        if isinstance(pattern, dpl.TuplePattern | dpl.UnorderedTuplePattern):
            return self._tuple(list(pattern.fields), like)
        return self._constant(like) if isinstance(pattern, dpl.ConstantPattern) else self._leaf(like)

    def _chosen(self, pattern: dpl.DFPattern) -> dpl.DFPattern | None:
        """The inner pattern that determines the value, if there is one."""
        match pattern:
            case dpl.OrPattern():
                return self.bench.draw(st.sampled_from((pattern.left, pattern.right)))
            case dpl.AndPattern():
                return max((pattern.left, pattern.right), key=lambda part: len(ops_in(part)))
            case dpl.AttrPattern(pattern=dpl.CallPattern()):
                return None
            case dpl.AttrPattern() | dpl.DataTypePattern() | dpl.ShapePattern() | TypePattern():
                return pattern.pattern
            case _:
                return None

    def _leaf(self, like: relax.Expr | None) -> relax.Expr:
        value = self.bench.value() if like is None else like
        if value is None:
            raise _NoInstanceError
        return value

    def _constant(self, like: relax.Expr | None) -> relax.Expr:
        if isinstance(like, Constant):
            return like
        if like is None or not isinstance(like.ty, relax.TensorType):
            raise _NoInstanceError
        return self.bench.tensor(extents_of(like), constant=True, dtype=str(tensor_type(like).dtype))

    def _tuple(self, fields: Sequence[dpl.DFPattern], like: relax.Expr | None) -> relax.Expr:
        known: list[relax.Expr | None] = list(like.fields) if isinstance(like, relax.Tuple) else []
        known += [known[-1] if known else None] * (len(fields) - len(known))
        return relax.Tuple([self.made(field, value) for field, value in zip(fields, known, strict=False)])

    def _call(self, pattern: dpl.CallPattern, attrs: Mapping[str, object]) -> relax.Expr:
        operands = list(pattern.args)
        inner = [self.made(part) for part in operands if part in self.known or not _is_leaf(part)]
        call = self._from_recipe(_op_of(pattern), [value for value in inner if _is_tensor(value)])
        if len(call.args) < len(operands):
            raise _NoInstanceError
        args = [self._operand(part, arg, inner) for part, arg in zip(operands, call.args, strict=False)]
        args += call.args[len(operands) :]
        return self.bench.bound(relax.Call(call.op, args, _attrs_with(call, attrs), call.ty_args))

    def _operand(
        self, pattern: dpl.DFPattern, of_recipe: relax.Expr, inner: Sequence[relax.Expr]
    ) -> relax.Expr:
        """The operand for a position: the recipe's, unless the pattern constrains it or uses it elsewhere."""
        if pattern not in self.known and any(of_recipe.same_as(value) for value in inner):
            of_recipe = self.bench.tensor(extents_of(of_recipe), dtype=str(tensor_type(of_recipe).dtype))
        return self.made(pattern, of_recipe)

    def _from_recipe(self, name: str, operands: Sequence[relax.Expr]) -> relax.Call:
        """A call of an op; requests for values by its recipe are served from `operands` first."""
        made = self.recipes[name](_Offering(self.bench, operands))
        call = made.tuple_value if isinstance(made, relax.TupleGetItem) else made
        if not isinstance(call, relax.Call):
            raise _NoInstanceError
        return call


def _op_of(pattern: dpl.CallPattern) -> str:
    return str(expect(tvm.ir.Op, expect(dpl.ExprPattern, pattern.op).expr).name)


def _is_leaf(pattern: dpl.DFPattern) -> bool:
    return not ops_in(pattern)


def _is_tensor(value: relax.Expr) -> bool:
    return isinstance(value.ty, relax.TensorType)


def _attrs_with(call: relax.Call, fields: Mapping[str, object]) -> tvm.ir.Attrs | None:
    """The attributes of a call with some existing fields replaced."""
    if call.attrs is None or not fields:
        return call.attrs
    known = {name: getattr(call.attrs, name) for name in field_names(type(call.attrs))}
    wanted = {name: value for name, value in fields.items() if name in known}
    kind = str(expect(tvm.ir.Op, call.op).attrs_type_key)
    attrs: tvm.ir.Attrs = tvm.ir.make_node(kind, **{**known, **wanted})
    return attrs


class _Offering:
    """A workbench that serves requests from given values first."""

    def __init__(self, bench: Workbench, values: Sequence[relax.Expr]) -> None:
        self.bench = bench
        self.values = list(values)

    @property
    def dtype(self) -> str:
        """See `Workbench`."""
        return self.bench.dtype

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        """See `Workbench`."""
        return self.bench.draw(strategy)

    def value(self, rank: int | None = None, dtype: str = "") -> relax.Expr | None:
        """See `Workbench`."""
        for place, value in enumerate(self.values):
            if rank in (None, rank_of(value)) and dtype in ("", str(tensor_type(value).dtype)):
                return self.values.pop(place)
        return self.bench.value(rank, dtype)

    def tensor(
        self,
        shape: Sequence[int],
        *,
        positive: bool = False,
        unit: bool = False,
        below: int = 0,
        constant: bool = False,
        dtype: str = "",
    ) -> relax.Expr:
        """See `Workbench`."""
        return self.bench.tensor(
            shape, positive=positive, unit=unit, below=below, constant=constant, dtype=dtype
        )
