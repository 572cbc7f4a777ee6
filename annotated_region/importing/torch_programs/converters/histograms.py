"""Histograms, which TVM 0.27's importer lacks.

PyTorch puts an element ``x`` into the bin ``int((x - first) * bins / (last - first))``, computed in the type
of the elements, and the last bound into the last bin. The bin never falls when `x` grows, so the least number
of each bin is found here, before the model runs, and elements are compared with these edges alone. Then no
target rounds otherwise at an edge, as one might that joins the subtraction and the product.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor

__all__ = ["least_of_bins"]


@converts("histc.default")
def histogram(node: TorchNode) -> relax.Expr:
    """How many elements are in each of the bins between two numbers; others, and NaN, are in none."""
    bins, first, last = (
        float(str(node.argument(place, name, default)))
        for place, (name, default) in enumerate((("bins", 100), ("min", 0), ("max", 0)), 1)
    )
    if first == last:
        raise ModelError(
            "without bounds, the data's would be taken, which is not supported: give min and max"
        )
    count, dtype = int(bins), dtype_of_tensor(node.tensor(0))
    edges = relax.const(least_of_bins(count, first, last, dtype)[:, None], dtype)
    elements = node.emit(relax.op.reshape(node.tensor(0), [1, -1]))
    is_within = node.emit(relax.op.less_equal(elements, relax.const(last, dtype)))
    is_from = node.emit(relax.op.greater_equal(elements, edges))
    is_counted = node.cast(node.emit(relax.op.logical_and(is_from, is_within)), "int64")
    counts = node.emit(relax.op.sum(is_counted, 1))
    if count > 1:
        # The elements from one edge on, less those from the next edge on.
        behind = node.emit(relax.op.strided_slice(counts, [0], [1], [count], assume_inbound=True))
        following = node.emit(relax.op.concat([behind, relax.const([0], "int64")], 0))
        counts = node.emit(relax.op.subtract(counts, following))
    return node.cast(counts, dtype)


def least_of_bins(bins: int, first: float, last: float, dtype: str) -> np.ndarray:
    """The least number, of those that the type has, whose bin is this one or a later one.

    Found by bisection of the numbers between the bounds: numbers of one sign are ordered as their bits are.
    """
    bits = np.dtype(f"int{8 * np.dtype(dtype).itemsize}")
    low, high = (_ordinal(np.array(each, dtype), bits) for each in (first, last))
    lows, highs = np.full(bins, low), np.full(bins, high)
    wanted = np.arange(bins)
    while (lows < highs).any():
        middles = (lows >> 1) + (highs >> 1) + (lows & highs & 1)
        is_enough = _bins_of(_number(middles, dtype), bins, first, last) >= wanted
        highs, lows = np.where(is_enough, middles, highs), np.where(is_enough, lows, middles + 1)
    return _number(lows, dtype)


def _bins_of(numbers: np.ndarray, bins: int, first: float, last: float) -> np.ndarray:
    """The bin of each number between the bounds, by PyTorch's arithmetic."""
    one = numbers.dtype.type
    places = (numbers - one(first)) * one(bins) / (one(last) - one(first))
    found: np.ndarray = np.minimum(places.astype("int64"), bins - 1)
    return found


def _ordinal(number: np.ndarray, bits: np.dtype) -> int:
    """Whole numbers in the order of the floats that they stand for."""
    found = int(number.view(bits))
    return found if found >= 0 else int(np.iinfo(bits).min) - found


def _number(ordinals: np.ndarray, dtype: str) -> np.ndarray:
    """The floats of `_ordinal`."""
    bits = np.dtype(f"int{8 * np.dtype(dtype).itemsize}")
    found = np.where(ordinals >= 0, ordinals, np.iinfo(bits).min - ordinals)
    numbers: np.ndarray = found.astype(bits).view(dtype)
    return numbers
