"""The largest or smallest element so far along an axis, and sums of exponentials, which TVM's importer lacks.

Grounding DINO finds the phrase of each word by the extremes. Each element meets all those of its row, so that
the work is quadratic in the extent of the axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


@converts("cummax.default", "cummin.default")
def extremes_so_far(node: TorchNode) -> relax.Expr | None:
    """The extreme of each element and those before it, and the last place where it is; NaN stays NaN."""
    data, axis = node.tensor(0), node.argument(1, "dim")
    dtype, extents = dtype_of_tensor(data), extents_of_tensor(data)
    if not ("float" in dtype or dtype.startswith("int")) or not extents or not isinstance(axis, int):
        return None
    rows = _Rows.of(node, data, axis % len(extents))
    largest, is_float = node.name.startswith("cummax"), "float" in dtype
    extreme = rows.reduced(data, _limit(dtype, largest=largest), relax.op.max if largest else relax.op.min)
    is_nan = node.emit(relax.op.isnan(data)) if is_float else None
    if is_nan is not None:
        has_nan = rows.reduced(node.cast(is_nan, dtype), relax.const(0, dtype), relax.op.max)
        is_lost = node.emit(relax.op.greater(has_nan, relax.const(0, dtype)))
        extreme = node.emit(relax.op.where(is_lost, relax.const(np.nan, dtype), extreme))
    places = rows.places(data, extreme, is_nan) if node.are_read(1) else relax.op.zeros_like(data, "int64")
    return node.emit(relax.Tuple([extreme, node.emit(places)]))


@converts("logcumsumexp.default")
def logarithm_of_sums_so_far(node: TorchNode) -> relax.Expr | None:
    """The logarithm of the sum of the exponentials of each element and those before it."""
    data, axis = node.tensor(0), node.argument(1, "dim")
    dtype, extents = dtype_of_tensor(data), extents_of_tensor(data)
    if "float" not in dtype or not extents or not isinstance(axis, int):
        return None
    rows = _Rows.of(node, data, axis % len(extents))
    largest = rows.reduced(data, _limit(dtype, largest=True), relax.op.max)
    is_finite = node.emit(relax.op.isfinite(largest))
    shift = node.emit(relax.op.where(is_finite, largest, relax.const(0, dtype)))
    around = node.emit(relax.op.subtract(rows.spread(data, 0), rows.spread(shift, 1)))
    seen = node.emit(relax.op.where(rows.counts, around, _limit(dtype, largest=True)))
    sums = node.emit(relax.op.sum(node.emit(relax.op.exp(seen)), [rows.axis + 1]))
    return node.emit(relax.op.add(node.emit(relax.op.log(sums)), shift))


def _limit(dtype: str, *, largest: bool) -> relax.Expr:
    """What changes no extreme."""
    if "float" in dtype:
        return relax.const(-np.inf if largest else np.inf, dtype)
    limits = np.iinfo(dtype)
    return relax.const(limits.min if largest else limits.max, dtype)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Elements of an axis against those of the same row: a new axis behind it has the others.

    Attributes
    ----------
    node
        The node.
    axis
        The axis.
    numbers
        The places along the new axis.
    counts
        Whether an element of the new axis is not behind that of the axis.
    """

    node: TorchNode
    axis: int
    numbers: relax.Expr
    counts: relax.Expr

    @classmethod
    def of(cls, node: TorchNode, data: relax.Expr, axis: int) -> _Rows:
        """The elements of an axis of the data."""
        extents = extents_of_tensor(data)
        count, behind = extents[axis], [1] * (len(extents) - axis - 1)
        places = node.emit(relax.op.arange(0, count, 1, "int64"))
        here = node.emit(relax.op.reshape(places, [count, 1, *behind]))
        numbers = node.emit(relax.op.reshape(places, [count, *behind]))
        return cls(node, axis, numbers, node.emit(relax.op.less_equal(numbers, here)))

    def spread(self, data: relax.Expr, place: int) -> relax.Expr:
        """The data beside a new axis before the axis, or behind it."""
        return self.node.emit(relax.op.expand_dims(data, [self.axis + place]))

    def reduced(
        self, data: relax.Expr, neutral: relax.Expr, reduce: Callable[[relax.Expr, list[int]], relax.Expr]
    ) -> relax.Expr:
        """A reduction of each element and those before it."""
        seen = self.node.emit(relax.op.where(self.counts, self.spread(data, 0), neutral))
        return self.node.emit(reduce(seen, [self.axis + 1]))

    def places(self, data: relax.Expr, extreme: relax.Expr, is_nan: relax.Expr | None) -> relax.Expr:
        """The last place so far where the data has its extreme, or is NaN."""
        emit = self.node.emit
        here = emit(relax.op.equal(self.spread(data, 0), self.spread(extreme, 1)))
        if is_nan is not None:
            here = emit(relax.op.logical_or(here, self.spread(is_nan, 0)))
        found = emit(relax.op.where(here, self.numbers, relax.const(0, "int64")))
        kept = emit(relax.op.where(self.counts, found, relax.const(0, "int64")))
        return relax.op.max(kept, [self.axis + 1])
