"""Graphs for the conformance kit: made of recipes, filled with numbers, cut into smaller ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np
import tvm
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes import DTYPES, EXTENTS, RECIPES, Recipe, can_be_made
from annotated_region.tvm_adapter.types import expect, fixed_extents, tensor_type

__all__ = [
    "declared_types",
    "graphs_of",
    "inputs_of",
    "made",
    "parts_of",
    "size_of",
    "smaller_of",
    "types_of",
]

T = TypeVar("T")
_GAPS = ("relax.tanh", "relax.negative", "relax.abs")
_GAPS_OF_TRUTH = ("relax.logical_not", "relax.logical_xor")


def graphs_of(
    claimed: Sequence[str], recipes: Mapping[str, Recipe], max_ops: int, dtype: str = "float32"
) -> st.SearchStrategy[tvm.IRModule]:
    """Modules made of the ops in `claimed` and of one that is not claimed, so that regions have borders."""
    usable = [
        name
        for name in claimed
        if name in recipes and (recipes[name] is not RECIPES.get(name) or can_be_made(name, dtype))
    ]
    gaps = _GAPS_OF_TRUTH if dtype == "bool" else _GAPS
    gap = next((name for name in gaps if name not in claimed), gaps[-1])
    chosen = [recipes[name] for name in (*usable, gap)]

    @st.composite
    def graphs(draw: st.DrawFn) -> tvm.IRModule:
        bench = _Bench(draw, dtype)
        for recipe in draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=max_ops)):
            bench.add(recipe)
        return bench.module()

    return graphs()


def made(graphs: st.SearchStrategy[tvm.IRModule], examples: int, start: int) -> list[tvm.IRModule]:
    """As many graphs as asked for; the same `start` gives the same ones."""
    found: list[tvm.IRModule] = []

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(graphs)
    def make(mod: tvm.IRModule) -> None:
        found.append(mod)

    make()
    return found


class _Bench:
    """The `Workbench` of recipes: a function that grows at its end."""

    def __init__(self, draw: st.DrawFn, dtype: str) -> None:
        self.draw = draw
        self.dtype = dtype
        self.params: list[relax.Var] = []
        self.bindings: list[relax.Binding] = []
        self.builder = relax.BlockBuilder()
        self.constants = np.random.default_rng(1)

    def value(self, rank: int | None = None, dtype: str = "") -> relax.Expr | None:
        wanted = dtype or self.dtype
        values = [binding.var for binding in self.bindings] or self.params[:1]
        values = [value for value in values if _is_tensor(value, wanted)]
        ranks = {tensor_type(value).ndim for value in values} - {0} if rank is None else {rank}
        fitting = [value for value in values if tensor_type(value).ndim in ranks]
        if not fitting:
            makes_one = not self.bindings or self.draw(st.booleans())
            return self._input(4 if rank is None else rank, wanted) if makes_one else None
        newest = self.draw(st.integers(0, 3)) < 3
        return fitting[-1] if newest else self.draw(st.sampled_from(fitting))

    def _input(self, rank: int, dtype: str) -> relax.Var:
        return self._param("x", [self.draw(st.sampled_from(EXTENTS)) for _axis in range(rank)], dtype)

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
        kind = "positive" if positive else "unit" if unit else f"below_{below}_" if below else "x"
        if not constant:
            return self._param(kind, shape, dtype or self.dtype)
        values = _numbers(self.constants, shape, kind, dtype or self.dtype)
        if kind == "x" and values.dtype.kind == "f":
            values = values / math.sqrt(max(math.prod(shape[1:]), 1))
        return relax.const(values, dtype or self.dtype)

    def _param(self, kind: str, shape: Sequence[int], dtype: str) -> relax.Var:
        self.params.append(relax.Var(f"{kind}{len(self.params)}", relax.TensorType(list(shape), dtype)))
        return self.params[-1]

    def add(self, recipe: Recipe) -> None:
        """Bind the call of a recipe, if it finds one that fits, and that has a type."""
        count = len(self.params)
        try:
            call = recipe(self)
            typed = None if call is None else self.builder.normalize(_whole(call))
        except Exception:  # whatever TVM raises for an op that has no meaning for this type
            if self.dtype == DTYPES[0]:  # every recipe is made for this one: its author should see the error
                raise
            typed = None
        if typed is None:
            del self.params[count:]
            return
        self.bind(typed)
        if isinstance(call, relax.TupleGetItem):
            self.bind(self.builder.normalize(relax.TupleGetItem(self.bindings[-1].var, call.index)))

    def bind(self, value: relax.Expr) -> None:
        var = relax.DataflowVar(f"v{len(self.bindings)}", value.ty)
        self.bindings.append(relax.VarBinding(var, value))

    def module(self) -> tvm.IRModule:
        """A module that returns what no op reads."""
        if not self.bindings:
            self.bind(self.builder.normalize(relax.op.reshape(self._input(1, self.dtype), [-1])))
        read = {var for binding in self.bindings for var in _variables(binding.value)}
        return _module([param for param in self.params if param in read], self.bindings)


def _whole(call: relax.Expr) -> relax.Expr:
    """The call itself where a recipe gives one of its fields."""
    return call.tuple_value if isinstance(call, relax.TupleGetItem) else call


def _is_tensor(value: relax.Expr, dtype: str) -> bool:
    return isinstance(value.ty, relax.TensorType) and str(value.ty.dtype) == dtype


# -- numbers ---------------------------------------------------------------------------------------


def inputs_of(mod: tvm.IRModule) -> list[np.ndarray]:
    """Seeded numbers for each parameter, of the kind that its name says."""
    random = np.random.default_rng(0)
    return [
        _numbers(random, fixed_extents(param), param.name, str(tensor_type(param).dtype))
        for param in main_of(mod).params
    ]


def main_of(mod: tvm.IRModule) -> relax.Function:
    """The function called main."""
    return expect(relax.Function, mod["main"])


def types_of(mod: tvm.IRModule) -> set[str]:
    """The data types of a graph's parameters and of what its ops make."""
    main = main_of(mod)
    values = [*main.params, *(binding.var for block in main.body.blocks for binding in block.bindings)]
    tys = [part for value in values for part in _parts(value.ty)]
    return {str(ty.dtype) for ty in tys if isinstance(ty, relax.TensorType)}


def _parts(ty: tvm.ir.Type) -> Sequence[tvm.ir.Type]:
    return list(ty.fields) if isinstance(ty, tvm.ir.TupleType) else [ty]


def declared_types(mod: tvm.IRModule) -> list[str]:
    """The data types of a graph's results, as it declares them."""
    return [str(expect(relax.TensorType, part).dtype) for part in _parts(main_of(mod).ret_ty)]


def _numbers(random: np.random.Generator, shape: Sequence[int], kind: str, dtype: str) -> np.ndarray:
    """Numbers of order one; `kind` begins with "positive", "unit", "below_N_", or anything else."""
    limit = re.match(r"below_(\d+)_", kind)
    values: np.ndarray
    if limit:
        values = random.integers(0, int(limit[1]), shape)
    elif not dtype.startswith("float"):
        low = 1 if kind.startswith("positive") else 0 if dtype in ("uint8", "bool") else -4
        values = random.integers(low, 2 if dtype == "bool" else 5, shape)
    elif kind.startswith("positive"):
        values = random.uniform(0.5, 1.5, shape)
    elif kind.startswith("unit"):
        values = random.uniform(-0.9, 0.9, shape)
    else:
        values = random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


# -- smaller graphs --------------------------------------------------------------------------------


def parts_of(mod: tvm.IRModule, size: int) -> Iterator[tvm.IRModule]:
    """All modules of `size` of the ops; what they read besides becomes parameters."""
    for chosen in combinations(_steps(mod), size):
        yield _cut_out([binding for step in chosen for binding in step])


def smaller_of(mod: tvm.IRModule) -> Iterator[tvm.IRModule]:
    """The module with smaller parameters: all extents of one size become 1, or 2, where that is allowed."""
    sizes = {extent for param in main_of(mod).params for extent in fixed_extents(param)}
    for size in sorted(sizes, reverse=True):
        for new in (1, 2):
            found = _resized(mod, size, new) if new < size else None
            if found is not None:
                yield found


def _resized(mod: tvm.IRModule, size: int, new: int) -> tvm.IRModule | None:
    """The module with extents of `new` in place of `size`; None if its ops do not allow that."""
    values: dict[relax.Var, relax.Var] = {}
    for param in main_of(mod).params:
        shape = [new if extent == size else extent for extent in fixed_extents(param)]
        values[param] = relax.Var(param.name, relax.TensorType(shape, str(tensor_type(param).dtype)))
    params = list(values.values())
    builder = relax.BlockBuilder()
    bindings = []
    for binding in (binding for block in main_of(mod).body.blocks for binding in block.bindings):
        try:
            value = builder.normalize(_with_operands(binding.value, values, retyped=True))
        except Exception:  # whatever TVM raises for shapes that do not fit
            return None
        values[binding.var] = relax.DataflowVar(binding.var.name, value.ty)
        bindings.append(relax.VarBinding(values[binding.var], value))
    return _module(params, bindings)


def _steps(mod: tvm.IRModule) -> list[list[relax.Binding]]:
    """The ops of a module, each with the bindings that take its result apart."""
    steps: list[list[relax.Binding]] = []
    for binding in (binding for block in main_of(mod).body.blocks for binding in block.bindings):
        if isinstance(binding.value, relax.TupleGetItem):
            of = binding.value.tuple_value
            next(step for step in steps if any(each.var == of for each in step)).append(binding)
        else:
            steps.append([binding])
    return steps


def size_of(mod: tvm.IRModule) -> int:
    """How many ops a module has."""
    return len(_steps(mod))


def _cut_out(bindings: Sequence[relax.Binding]) -> tvm.IRModule:
    params: dict[relax.Var, relax.Var] = {}
    inside: dict[relax.Var, relax.Var] = {}
    renamed = []
    for binding in bindings:
        for var in _variables(binding.value):
            if var not in inside:
                params.setdefault(var, relax.Var(var.name, var.ty))
        inside[binding.var] = relax.DataflowVar(binding.var.name, binding.var.ty)
        value = _with_operands(binding.value, {**params, **inside})
        renamed.append(relax.VarBinding(inside[binding.var], value))
    return _module(list(params.values()), renamed)


def _with_operands(
    value: relax.Expr, new: Mapping[relax.Var, relax.Var], retyped: bool = False
) -> relax.Expr:
    """The value of other operands; of the same type, or `retyped`, of one that is still to be inferred."""
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(_replaced(value.tuple_value, new), value.index)
    call = expect(relax.Call, value)
    args = [_replaced(arg, new) for arg in call.args]
    return relax.Call(call.op, args, call.attrs, call.ty_args, ret_ty=None if retyped else call.ty)


def _replaced(arg: relax.Expr, new: Mapping[relax.Var, relax.Var]) -> relax.Expr:
    if isinstance(arg, relax.Tuple):
        return relax.Tuple([_replaced(part, new) for part in arg.fields])
    return new[arg] if isinstance(arg, relax.Var) else arg


def _module(params: Sequence[relax.Var], bound: Sequence[relax.Binding]) -> tvm.IRModule:
    """A module that returns what no op reads."""
    read = {var for binding in bound for var in _variables(binding.value)}
    loose = [binding.var for binding in bound if binding.var not in read]
    results = [relax.Var(var.name, var.ty) for var in loose]
    renamed = dict(zip(loose, results, strict=True))
    bindings = [relax.VarBinding(renamed.get(binding.var, binding.var), binding.value) for binding in bound]
    body = relax.Tuple(results) if len(results) > 1 else results[0]
    block = relax.SeqExpr([relax.DataflowBlock(bindings)], body)
    ty = relax.TupleType([var.ty for var in results]) if len(results) > 1 else results[0].ty
    function = relax.Function(list(params), block, ty).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(tvm.IRModule({"main": function}))


def _variables(value: relax.Expr) -> list[relax.Var]:
    if isinstance(value, relax.TupleGetItem):
        return [expect(relax.Var, value.tuple_value)]
    args = expect(relax.Call, value).args
    fields = [part for arg in args for part in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]
    return [part for part in fields if isinstance(part, relax.Var)]
