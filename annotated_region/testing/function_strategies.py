"""Hypothesis strategies for well-formed Relax functions with every structure that passes must handle.

The functions are small and adversarial: layered and irregular graphs, nested tuples, split and
concat, constants bound to variables and inline, zeros without inputs, aliases, dead code, symbolic
shapes, casts that define shape variables, several blocks, nested conditionals, calls with
effects, local functions, and results that repeat a value or return a parameter. TVM accepts,
prints and parses all of them and, apart from its own bugs with conditionals, runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from hypothesis import strategies as st
from tvm import relax

from annotated_region.checked import checked, checked_class
from annotated_region.functions.rewriting import typed
from annotated_region.tvm_adapter.types import expect, shape_of

__all__ = ["IDENTITY", "Ingredients", "functions", "modules"]

IDENTITY = "annotated_region.testing.identity"
"""The packed function that generated functions call: it returns its argument."""

tvm_ffi.register_global_func(IDENTITY, lambda value: value, override=True)


@checked_class
@dataclass(frozen=True, slots=True)
class Ingredients:
    """The constructs that a generated function may contain.

    Attributes
    ----------
    nodes
        The maximum number of bindings, including those in branches.
    blocks
        The maximum number of blocks of a body.
    branches
        The maximum nesting depth of `If`; 0 for none.
    effects
        Whether it may call functions with effects, and therefore be impure.
    local_functions
        Whether it may define and call local functions.
    symbolic
        Whether the number of rows may be a variable.
    casts
        Whether it may have casts (`MatchCast`), some of which define further shape variables.
    arrays
        Whether constants may have more than one element. TVM 0.27 crashes when it prints those.
    """

    nodes: int = 16
    blocks: int = 3
    branches: int = 2
    effects: bool = True
    local_functions: bool = True
    symbolic: bool = True
    casts: bool = True
    arrays: bool = False


@checked
def functions(
    ingredients: Ingredients | None = None, name: str = "main"
) -> st.SearchStrategy[relax.Function]:
    """Well-formed Relax functions over small float32 matrices.

    Parameters
    ----------
    ingredients
        The constructs that they may contain; all by default.
    name
        Their ``global_symbol``.

    Notes
    -----
    The parameters are one to three matrices, a tuple of two matrices and a condition. Functions
    shrink towards few nodes that use the oldest values.
    """
    return _functions(ingredients or Ingredients(), name)


@st.composite
def _functions(draw: st.DrawFn, ingredients: Ingredients, name: str) -> relax.Function:
    return _Generator(draw, ingredients).function(name)


@checked
def modules(ingredients: Ingredients | None = None) -> st.SearchStrategy[tvm.IRModule]:
    """Well-formed modules of one or two such functions, ``main`` and ``other``."""
    both = st.fixed_dictionaries(
        {"main": functions(ingredients, "main")}, optional={"other": functions(ingredients, "other")}
    )
    return both.map(tvm.IRModule)


# -- what values are --------------------------------------------------------------------------------


def _matrix(rows: relax.Expr | int, width: int) -> relax.TensorType:
    return relax.TensorType([rows, width], "float32")


def _is_matrix(ty: tvm.ir.Type) -> bool:
    return isinstance(ty, relax.TensorType) and ty.ndim == 2


def _is_condition(ty: tvm.ir.Type) -> bool:
    return isinstance(ty, relax.TensorType) and str(ty.dtype) == "bool"


def _is_tuple(ty: tvm.ir.Type) -> bool:
    return isinstance(ty, tvm.ir.TupleType) and len(ty.fields) > 0


def _is_shape(ty: tvm.ir.Type) -> bool:
    return isinstance(ty, relax.ShapeType)


def _is_result(ty: tvm.ir.Type) -> bool:
    return isinstance(ty, relax.TensorType) or _is_tuple(ty)


def _rows(value: relax.Expr) -> relax.Expr:
    return shape_of(value).values[0]


def _width(value: relax.Expr) -> int:
    return _columns(value.ty)


def _columns(ty: tvm.ir.Type) -> int:
    shape = expect(relax.ShapeExpr, expect(relax.TensorType, ty).shape)
    return int(expect(tvm.tirx.IntImm, shape.values[1]))


def _same(left: tvm.ir.Type, right: tvm.ir.Type) -> bool:
    return bool(tvm_ffi.structural_equal(left, right))


# -- the generator ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of a binding: the visible values, the kind of its block, the number of enclosing `If`s."""

    values: list[relax.Expr]
    dataflow: bool
    depth: int


class _Generator:
    def __init__(self, draw: st.DrawFn, ingredients: Ingredients) -> None:
        self.draw = draw
        self.ingredients = ingredients
        self.left = draw(st.integers(1, ingredients.nodes))
        self.pure = not (ingredients.effects and draw(st.booleans()))
        self.layered = draw(st.booleans())
        symbolic = ingredients.symbolic and draw(st.booleans())
        self.rows: relax.Expr | int = tvm.tirx.Var("n", "int64") if symbolic else 2
        self.builder = relax.BlockBuilder()
        self.names = 0
        self.local_functions: list[relax.Var] = []

    def function(self, name: str) -> relax.Function:
        """One function."""
        widths = self.draw(st.lists(st.sampled_from([4, 2, 8]), min_size=1, max_size=3))
        params = [relax.Var(f"x{index}", _matrix(self.rows, width)) for index, width in enumerate(widths)]
        pair = tvm.ir.TupleType([_matrix(self.rows, 4), _matrix(self.rows, 4)])
        params += [relax.Var("pair", pair), relax.Var("flag", relax.TensorType([], "bool"))]
        body = self.body(list(params), depth=0, result=self.result)
        # Shape variables defined by casts are not visible outside the function.
        known = {self.rows: self.rows} if isinstance(self.rows, relax.Var) else {}
        ret_ty = relax.analysis.erase_to_well_defined(body.ty, known, {})
        attrs = tvm.ir.make_node("ir.DictAttrs", global_symbol=name)
        return relax.Function(params, body, ret_ty, self.pure, attrs)

    def body(
        self, values: list[relax.Expr], depth: int, result: Callable[[_Place], relax.Expr]
    ) -> relax.SeqExpr:
        """A body in the scope of `values`, with the result chosen by `result`."""
        blocks: list[relax.BindingBlock] = []
        dataflow = self.draw(st.booleans())
        for _ in range(self.draw(st.integers(0 if depth else 1, self.ingredients.blocks))):
            bindings = self.bindings(_Place(values, dataflow, depth))
            if bindings:
                blocks.append((relax.DataflowBlock if dataflow else relax.BindingBlock)(bindings))
                dataflow = not dataflow  # the parser merges consecutive blocks of one kind
        answer = result(_Place(values, False, depth))
        return typed(relax.SeqExpr(blocks, answer), answer.ty)

    def bindings(self, place: _Place) -> list[relax.Binding]:
        """The bindings of one block; adds the values that stay visible after it to `place`."""
        count = min(self.left, self.draw(st.integers(1, self.ingredients.nodes)))
        self.left -= count
        outer = list(place.values)
        made: list[relax.Binding] = []
        for index in range(count):
            recipe = self.draw(st.sampled_from(self.recipes(place)))
            step = recipe(self, place) or _unary(self, place)
            hidden = place.dataflow and index + 1 < count and self.draw(st.booleans())
            made.append(self.bind(step, hidden))
            place.values.append(made[-1].var)
        visible = [each.var for each in made if not isinstance(each.var, relax.DataflowVar)]
        place.values[:] = [*outer, *visible]
        return made

    def bind(self, step: _Step, hidden: bool) -> relax.Binding:
        value, cast = step
        value = self.builder.normalize(value) if value.ty.is_missing() else value
        self.names += 1
        var = (relax.DataflowVar if hidden else relax.Var)(f"v{self.names}", cast or value.ty)
        return relax.VarBinding(var, value) if cast is None else relax.MatchCast(var, value, cast)

    def recipes(self, place: _Place) -> list[Recipe]:
        """The recipes that are allowed at a place, simplest first."""
        offered = [*_ANYWHERE]
        if self.ingredients.casts:
            offered += [_cast]
        if place.dataflow:
            return offered
        if place.depth < self.ingredients.branches:
            offered += [_conditional] * 3
        if not self.pure:
            offered += [_effect, _packed]
        if self.ingredients.local_functions:
            offered += [_local_function, _local_call]
        return offered

    def pick(self, place: _Place, wanted: Callable[[tvm.ir.Type], bool]) -> Any:
        """A visible value of the wanted type; None if there is none."""
        found = [value for value in place.values if wanted(value.ty)]
        if self.layered:
            found = found[-4:]
        return self.draw(st.sampled_from(found)) if found else None

    def result(self, place: _Place) -> relax.Expr:
        """The result of the function: a value, or a tuple, possibly of tuples and with repetitions."""
        found = [value for value in place.values if _is_result(value.ty)]
        shape = self.draw(st.sampled_from(["last", "some", "all", "nested"]))
        if shape == "last":
            return found[-1]
        if shape == "all":
            return _tuple_of(found)
        some = self.draw(st.lists(st.sampled_from([*found, _scalar(1.0)]), min_size=1, max_size=4))
        return _tuple_of(some if shape == "some" else [*some, _tuple_of(some[:2])])


_Step = tuple[relax.Expr, tvm.ir.Type | None]
"""What to bind, and the type to cast it to if it is a `MatchCast`."""

Recipe = Callable[[_Generator, _Place], _Step | None]


def _scalar(value: float) -> relax.Expr:
    return relax.const(value, "float32")


def _tuple_of(values: Sequence[relax.Expr]) -> relax.Expr:
    return relax.Tuple(list(values))


# -- recipes: each returns a value to bind, or None if operands are missing ---------------------------


def _unary(gen: _Generator, place: _Place) -> _Step:
    value = gen.pick(place, _is_matrix)
    op = gen.draw(st.sampled_from([relax.op.nn.relu, relax.op.tanh, relax.op.negative, relax.op.sigmoid]))
    return (op(value), None)


def _binary(gen: _Generator, place: _Place) -> _Step | None:
    left = gen.pick(place, _is_matrix)
    right = gen.pick(place, lambda ty: _is_matrix(ty) and _same(ty, left.ty))
    op = gen.draw(st.sampled_from([relax.op.add, relax.op.maximum, relax.op.subtract, relax.op.multiply]))
    return (op(left, right if right is not None else left), None)


def _with_constant(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    constant = _scalar(0.5)
    if gen.ingredients.arrays and gen.draw(st.booleans()):
        constant = relax.const(np.arange(_width(value), dtype="float32"))
    operands = gen.draw(st.permutations([value, constant]))
    return (relax.op.add(*operands), None)


def _concat(gen: _Generator, place: _Place) -> _Step | None:
    first = gen.pick(place, _is_matrix)
    fitting = [value for value in place.values if _is_matrix(value.ty) and _same(value.ty, first.ty)]
    others = gen.draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2))
    if sum(_width(part) for part in (first, *others)) > 16:
        return None
    return (relax.op.concat(_tuple_of([first, *others]), axis=1), None)


def _concat_of_tuple(gen: _Generator, place: _Place) -> _Step | None:
    def fits(ty: tvm.ir.Type) -> bool:
        parts = list(ty.fields) if isinstance(ty, tvm.ir.TupleType) else []
        return len(parts) > 0 and all(_is_matrix(part) and _same(part, parts[0]) for part in parts)

    parts = gen.pick(place, fits)
    if parts is None or sum(map(_columns, parts.ty.fields)) > 16:
        return None
    return (relax.op.concat(parts, axis=1), None)


def _split(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, lambda ty: _is_matrix(ty) and _columns(ty) % 2 == 0)
    return None if value is None else (relax.op.split(value, 2, axis=1), None)


def _tuple(gen: _Generator, place: _Place) -> _Step | None:
    usable = [value for value in place.values if _is_result(value.ty)]
    parts = gen.draw(st.lists(st.sampled_from([*usable, _scalar(2.0)]), min_size=1, max_size=3))
    nested = gen.draw(st.booleans())
    return (_tuple_of([*parts, _tuple_of(parts[:1])] if nested else parts), None)


def _field(gen: _Generator, place: _Place) -> _Step | None:
    whole = gen.pick(place, _is_tuple)
    index = gen.draw(st.integers(0, len(whole.ty.fields) - 1))
    return (relax.TupleGetItem(whole, index), None)


def _alias(gen: _Generator, place: _Place) -> _Step | None:
    return (gen.pick(place, _is_result), None)


def _zeros(gen: _Generator, _place: _Place) -> _Step | None:
    return (relax.op.zeros(relax.ShapeExpr([gen.rows, 4]), "float32"), None)


def _zeros_like(gen: _Generator, place: _Place) -> _Step | None:
    return (relax.op.zeros_like(gen.pick(place, _is_matrix)), None)


def _constant(gen: _Generator, _place: _Place) -> _Step | None:
    return (_scalar(float(gen.draw(st.integers(0, 3)))), None)


def _shape(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    return (relax.ShapeExpr([_rows(value), _width(value)]), None)


def _reshape(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    shapes = [shape for shape in place.values if _is_shape(shape.ty) and _same(shape.ty, _shape_type(value))]
    shape = gen.draw(st.sampled_from([relax.ShapeExpr([_rows(value), _width(value)]), *shapes]))
    return (relax.op.reshape(value, shape), None)


def _shape_type(value: relax.Expr) -> relax.ShapeType:
    return relax.ShapeType([_rows(value), tvm.tirx.IntImm("int64", _width(value))])


def _condition(gen: _Generator, place: _Place) -> _Step | None:
    flag = gen.pick(place, _is_condition)
    value = gen.pick(place, _is_matrix)
    if gen.draw(st.booleans()):
        return (relax.op.logical_not(flag), None)
    total = gen.pick(place, lambda ty: isinstance(ty, relax.TensorType) and _same(ty, _SCALAR))
    return (relax.op.sum(value), None) if total is None else (relax.op.less(total, _scalar(0.0)), None)


_SCALAR = relax.TensorType([], "float32")


def _cast(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    rows = _rows(value)
    if gen.draw(st.booleans()):
        rows = tvm.tirx.Var(f"m{gen.names}", "int64")
    return (value, _matrix(rows, _width(value)))


def _pure_packed(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    return (relax.op.call_pure_packed(IDENTITY, value, ty_args=[value.ty]), None)


def _packed(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    return (relax.Call(relax.ExternFunc(IDENTITY), [value], ty_args=[value.ty]), None)


def _effect(gen: _Generator, place: _Place) -> _Step | None:
    value = gen.pick(place, _is_matrix)
    return (relax.op.assert_op(relax.const(True, "bool"), [value], format="never seen"), None)


def _local_function(gen: _Generator, place: _Place) -> _Step | None:
    like = gen.pick(place, _is_matrix)
    param = relax.Var(f"p{gen.names}", like.ty)
    op = gen.draw(st.sampled_from([relax.op.nn.relu, relax.op.exp]))
    inner = relax.VarBinding(relax.Var(f"q{gen.names}", like.ty), gen.builder.normalize(op(param)))
    body = typed(relax.SeqExpr([relax.BindingBlock([inner])], inner.var), like.ty)
    return (relax.Function([param], body, like.ty, True), None)


def _local_call(gen: _Generator, place: _Place) -> _Step | None:
    callee = gen.pick(place, lambda ty: isinstance(ty, tvm.ir.FuncType | relax.FuncType))
    if callee is None:
        return None
    argument = gen.pick(place, lambda ty: _same(ty, callee.ty.params[0]))
    return None if argument is None else (typed(relax.Call(callee, [argument]), callee.ty.ret), None)


def _conditional(gen: _Generator, place: _Place) -> _Step | None:
    """An `If` whose branches return a value of the type of a visible value, or a pair of them."""
    flag = gen.pick(place, _is_condition)
    wanted = [gen.pick(place, _is_matrix).ty for _ in range(gen.draw(st.integers(1, 2)))]

    def result(inner: _Place) -> relax.Expr:
        chosen = [gen.pick(inner, partial(_same, like)) for like in wanted]
        return chosen[0] if len(chosen) == 1 else _tuple_of(chosen)

    one, other = (gen.body(list(place.values), place.depth + 1, result) for _ in range(2))
    return (typed(relax.If(flag, one, other), one.ty), None)


_ANYWHERE: tuple[Recipe, ...] = (
    _unary,
    _binary,
    _unary,
    _binary,
    _with_constant,
    _concat,
    _split,
    _field,
    _tuple,
    _alias,
    _zeros,
    _zeros_like,
    _constant,
    _shape,
    _reshape,
    _condition,
    _concat_of_tuple,
    _pure_packed,
)
