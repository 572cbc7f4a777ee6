"""Writes products with unpacked weights in the form that targets multiply with packed weights.

::

    words  = R.bitwise_and(R.right_shift(packed, shifts), 15)
    floats = R.multiply(R.subtract(R.astype(words), 8), scales)
    lv     = R.matmul(x, R.reshape(floats, ...))

becomes

    lv_words  = ...                                                 # bytes, in the order of the columns
    lv_floats = R.dequantize(lv_words, scales, 8, axis=0)
    lv        = R.matmul(x, R.permute_dims(R.reshape(lv_floats, ...)))

It runs before constants are folded, which would leave the floats.

1.  The weight is a matrix of `Scaled` numbers with at most 8 bits, see `reading`.
2.  Its scales and zero points are equal within groups of rows whose integers fill whole words of 32 bits.
3.  Its zero points are bytes.
4.  One of the given targets has a pattern for such products; without targets, all may have one.

Everything else is left as it is. Where a weight is scaled in float16, and then cast to float32, its elements
are not rounded to float16 any more.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import tvm
from tvm import relax

from annotated_region.functions.modules import functions_to_partition, updated
from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.sweep import sweep
from annotated_region.passes.unpacked_weights.reading import read_weight
from annotated_region.passes.unpacked_weights.scaled import Scaled
from annotated_region.passes.weight_rounding.expressions import weight_of
from annotated_region.passes.weight_rounding.rounding import RoundedWeight
from annotated_region.targets.claimants import Claimants
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require

__all__ = ["pack_weights"]

WORD = 32
OPS = frozenset(["relax.dequantize", "relax.reshape", "relax.permute_dims", "relax.matmul"])
"""Of the form that targets know."""


def pack_weights(mod: tvm.IRModule, claimants: Claimants) -> tvm.IRModule:
    """The module with packed weights in that form.

    Notes
    -----
    Linear in the bindings, and in the elements of the weights that are unpacked.
    """
    if not claimants.match(OPS):
        return mod
    # Terminates: the new weight has a `dequantize`, which the rewrite declines.
    return updated(
        mod,
        {
            name: sweep(function, {"relax.matmul": [_packed_product]}, claimants, lowers_weight=False)
            for name, function in functions_to_partition(mod)
        },
    )


def _packed_product(view: OpView, editor: Editor) -> relax.Expr | None:
    data, weight = view.args
    if editor.is_constant(weight):
        return None
    try:
        found = read_weight(weight, editor)
        numbers, bits = _rounded(found)
    except Declined:
        return None  # the ops stay, and are folded or computed in each run
    made = weight_of(numbers, bits, found.words.shape[1], editor)
    return relax.Call(view.call.op, [data, made], view.call.attrs)


def _rounded(weight: Scaled) -> tuple[RoundedWeight, int]:
    """A weight by the groups of its columns, and the bits of a number."""
    require(weight.words.ndim == 2, "the weight is a stack of matrices")
    require(weight.scales is not None, "the weight has no scales")
    assert weight.scales is not None
    scales = weight.scales.astype(weight.dtype)
    require(bool(np.isfinite(scales).all()), "a scale is not finite")
    words, zeros, bits = _bytes_of(weight)
    size = gcd(words.shape[0], *_borders(scales), *_borders(zeros))
    require(size * bits % WORD == 0, f"groups of {size} weights are no whole words")
    ends = zeros[::size].T.reshape(-1)
    is_one = bool((ends == ends[0]).all())
    return (
        RoundedWeight(
            np.ascontiguousarray(words.T).reshape(-1, size),
            np.ascontiguousarray(scales[::size].T).reshape(-1),
            ends[:1] if is_one else ends,
        ),
        bits,
    )


def _bytes_of(weight: Scaled) -> tuple[np.ndarray, np.ndarray, int]:
    """Integers and zero points as bytes, and the bits that the integers need."""
    words = weight.words.astype(np.int16)
    zeros = np.broadcast_to(np.float32(0) if weight.zeros is None else weight.zeros, words.shape)
    least, largest = int(words.min()), int(words.max())
    bits = 4 if largest - min(least, 0) < 16 else 8
    middle, top = 1 << (bits - 1), (1 << bits) - 1
    is_middle = least >= -middle and largest + middle <= top
    shift = 0 if least >= 0 else middle if is_middle else -least
    require(largest + shift <= top, "an integer has more than 8 bits")
    shifted = zeros.astype(np.float64) + shift
    stored = np.clip(shifted, 0, 255).astype(np.uint8)
    require(np.array_equal(stored, shifted), "a zero point is no byte")
    return (words + shift).astype(np.uint8), stored, bits


def _borders(numbers: np.ndarray) -> list[int]:
    """The rows that differ from the one before."""
    changes = (numbers[1:] != numbers[:-1]).any(axis=1)
    return [1 + int(row) for row in np.flatnonzero(changes)]
