"""The values of a region in one call, and the arguments of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from annotated_region.checking.program import PlacedFunction
from annotated_region.checking.running import Value
from annotated_region.dataflow.leaves import Leaf
from annotated_region.functions.external import External
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["RegionValues"]


@dataclass(frozen=True)
class RegionValues:
    """Values of a prepared function in one call of a region, or of a part of it.

    Attributes
    ----------
    function
        The region.
    arrays
        The tensors, by leaf.
    extents
        The values of shape variables.
    """

    function: PlacedFunction
    arrays: Mapping[Leaf, np.ndarray]
    extents: Mapping[relax.Var, int]

    @staticmethod
    def of_call(function: PlacedFunction, arguments: Sequence[Value]) -> RegionValues:
        """The values given by the arguments of a region."""
        arrays: dict[Leaf, np.ndarray] = {}
        extents: dict[relax.Var, int] = {}
        values = RegionValues(function, arrays, extents)
        for argument, value in zip(function.external.arguments, arguments, strict=True):
            if isinstance(argument, relax.ShapeExpr):
                _learn(extents, list(argument.values), list(expect(tvm.runtime.ShapeTuple, value)))
                continue
            leaf = values.leaf_of(argument)
            arrays[leaf] = expect(tvm.runtime.Tensor, value).numpy()
            shape = getattr(leaf.ty, "shape", None)
            _learn(extents, list(getattr(shape, "values", None) or ()), arrays[leaf].shape)
        return values

    def with_results(self, results: Mapping[Leaf, np.ndarray]) -> RegionValues:
        """The same with additional values that the region computes."""
        return RegionValues(self.function, {**self.arrays, **results}, self.extents)

    def arguments(self, external: External) -> list[Value]:
        """The arguments for an external function made from nodes of the region."""
        return [self._argument(argument) for argument in external.arguments]

    def _argument(self, argument: relax.Expr | Leaf) -> Value:
        if isinstance(argument, relax.ShapeExpr):
            extents = [self.extents[expect(relax.Var, extent)] for extent in argument.values]
            return tvm.runtime.ShapeTuple(tuple(extents))
        return tvm.runtime.tensor(self.array_of(self.leaf_of(argument)))

    def array_of(self, leaf: Leaf) -> np.ndarray:
        """The array of an input, an intermediate value or a constant."""
        known = self.arrays.get(leaf)
        if known is not None:
            return known
        array: np.ndarray = expect(Constant, leaf.root).value.numpy()
        return array

    def leaf_of(self, argument: relax.Expr | Leaf) -> Leaf:
        """The single value that an argument refers to."""
        if isinstance(argument, Leaf):
            return argument
        scope = self.function.graph.nodes[self.function.nodes[0]].scope
        found = self.function.source.leaves.of(expect(relax.Var, argument), scope)
        assert isinstance(found, Leaf), "an argument is a single value"
        return found


def _learn(extents: dict[relax.Var, int], said: Sequence[relax.Expr], counts: Sequence[int]) -> None:
    for extent, count in zip(said, counts, strict=False):
        if isinstance(extent, relax.Var):
            extents.setdefault(extent, int(count))
