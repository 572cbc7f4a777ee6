"""The bench of the conformance kit: a function to which recipes and patterns append bindings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tvm
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.conformance.modules import module_of, numbers, variables_of
from annotated_region.testing.recipes import DTYPES, EXTENTS, Recipe
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["Bench"]


class Bench:
    """The `Workbench` of recipes: a function under construction."""

    def __init__(self, draw: st.DrawFn, dtype: str) -> None:
        self.draw = draw
        self.dtype = dtype
        self.params: list[relax.Var] = []
        self.bindings: list[relax.Binding] = []
        self.builder = relax.BlockBuilder()
        self.constants = np.random.default_rng(1)

    def value(self, rank: int | None = None, dtype: str = "") -> relax.Expr | None:
        """See `Workbench`."""
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
        values = numbers(self.constants, shape, kind, dtype or self.dtype)
        if kind == "x" and values.dtype.kind == "f":
            values = values / math.sqrt(max(math.prod(shape[1:]), 1))
        return relax.const(values, dtype or self.dtype)

    def _param(self, kind: str, shape: Sequence[int], dtype: str) -> relax.Var:
        self.params.append(relax.Var(f"{kind}{len(self.params)}", relax.TensorType(list(shape), dtype)))
        return self.params[-1]

    def add(self, recipe: Recipe) -> None:
        """Bind the call of a recipe, if it returns one and TVM can infer its type."""
        before = self.mark()
        try:
            call = recipe(self)
            typed = None if call is None else self.builder.normalize(_whole(call))
        except Exception:  # TVM raises various errors for types that an op does not support
            if self.dtype == DTYPES[0]:  # every recipe must support this type: show the error to its author
                raise
            typed = None
        if typed is None or isinstance(
            typed.ty, relax.ShapeType
        ):  # a test function cannot return a bare shape
            self.forget(before)
            return
        self._bind(typed)
        if isinstance(call, relax.TupleGetItem):
            self.bound(relax.TupleGetItem(self.bindings[-1].var, call.index))

    def mark(self) -> tuple[int, int]:
        """The current size of the graph, for `forget`."""
        return len(self.params), len(self.bindings)

    def forget(self, mark: tuple[int, int]) -> None:
        """Remove everything added since `mark`."""
        params, bindings = mark
        del self.params[params:]
        del self.bindings[bindings:]

    def bound(self, value: relax.Expr) -> relax.Var:
        """Infer the type of a value, and bind it; raises TVM's error if inference fails."""
        return self._bind(self.builder.normalize(value))

    def _bind(self, typed: relax.Expr) -> relax.Var:
        var = relax.DataflowVar(f"v{len(self.bindings)}", typed.ty)
        self.bindings.append(relax.VarBinding(var, typed))
        return var

    def module(self) -> tvm.IRModule:
        """A module that returns all unused values, and in half of the cases also one used value."""
        if not self.bindings:
            self.bound(relax.op.reshape(self._input(1, self.dtype), [-1]))
        read = {var for binding in self.bindings for var in variables_of(binding.value)}
        inner = [
            binding.var
            for binding in self.bindings
            if binding.var in read and isinstance(binding.var.ty, relax.TensorType)
        ]
        tapped = bool(inner) and self.draw(st.booleans())
        taps = {self.draw(st.sampled_from(inner))} if tapped else set()
        return module_of([param for param in self.params if param in read], self.bindings, taps)


def _whole(call: relax.Expr) -> relax.Expr:
    """The call, if a recipe returns one of its fields."""
    return call.tuple_value if isinstance(call, relax.TupleGetItem) else call


def _is_tensor(value: relax.Expr, dtype: str) -> bool:
    return isinstance(value.ty, relax.TensorType) and str(value.ty.dtype) == dtype
