"""Compares 8-bit results with the numbers that they are rounded from.

    q = clip(round(x / s) + z)

The result of a correct engine differs from ``x / s + z`` by at most half a step plus its arithmetic error. An
error of less than a step, such as that of a small term in a large sum, changes the rounded result by at most
one, just like a different order of summation; compared with the unrounded number it is detectable.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from annotated_region.checking.comparison import ResultCheck, compared
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.tolerance import Tolerance
from annotated_region.dataflow.leaves import Leaf
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["compared_leaf"]

_QUANTIZE = "relax.quantize"
_EIGHT_BITS = ("int8", "uint8")
_HALF = 0.5  # steps: the largest error of rounding


def compared_leaf(values: RegionValues, leaf: Leaf, found: np.ndarray, tolerance: Tolerance) -> ResultCheck:
    """Compare a result of a part of a region with the reference, and with the reference before rounding.

    Parameters
    ----------
    values
        Every value of the region, as computed by the reference.
    leaf
        The result to compare.
    found
        The result of the target.
    tolerance
        The allowed difference from the reference, and optionally from the unrounded reference.
    """
    result = compared(leaf.name, found, values.array_of(leaf), tolerance)
    exact = None if tolerance.steps is None or not result.ok else _unrounded(values, leaf)
    if exact is None or tolerance.steps is None:
        return result
    why = f"int8: half a step of rounding, and {tolerance.steps:.2g} of arithmetic before it"
    limit = Tolerance(0.0, _HALF + tolerance.steps, 0.0, why)
    beside = compared(leaf.name, found.astype("float64"), exact, limit)
    return result if beside.ok else replace(beside, dtype=result.dtype, relative=result.relative)


def _unrounded(values: RegionValues, leaf: Leaf) -> np.ndarray | None:
    """The unrounded number of an 8-bit value in steps, clamped to its range; None for other values."""
    op = None if leaf.path else _op_of(values, leaf)
    if op is None or op.name != _QUANTIZE or op.out_tensor.dtype not in _EIGHT_BITS:
        return None
    data, scale, zero_point = (_array(values, argument).astype("float64") for argument in op.args)
    along = _shape_along(data.ndim, op.attrs["axis"])
    scale, zero_point = (each.reshape(along if each.size > 1 else ()) for each in (scale, zero_point))
    exact = data / scale + zero_point
    limits = np.iinfo(str(op.out_tensor.dtype))
    clipped: np.ndarray = np.clip(exact, limits.min, limits.max)
    return clipped


def _op_of(values: RegionValues, leaf: Leaf) -> OpView | None:
    graph = values.function.graph
    number = graph.number_of(leaf.root)
    return None if number is None else OpView.of(graph.nodes[number].value)


def _array(values: RegionValues, argument: relax.Expr) -> np.ndarray:
    if isinstance(argument, Constant):
        return argument.value.numpy()
    return values.array_of(values.leaf_of(argument))


def _shape_along(rank: int, axis: int) -> tuple[int, ...]:
    """The shape that broadcasts a vector along `axis` over all other axes."""
    place = axis % rank if rank else 0
    return tuple(-1 if each == place else 1 for each in range(rank))
