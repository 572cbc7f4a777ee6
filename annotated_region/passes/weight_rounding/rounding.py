"""Rounds a float matrix to integers of few bits, with one scale per group of a column.

A group is a run of consecutive weights along the reduction axis. Its weights ``w`` become

    q = round(w / scale) + zero        0 <= q < 2 ** bits

and represent ``(q - zero) * scale``. Both roundings are to nearest, ties to even (Jacob et al.
2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
section 2.1).

1.  Without zero points, ``zero`` is the middle ``2 ** (bits - 1)``, and the scale maps the largest magnitude
    of the group to ``2 ** (bits - 1) - 1``.
2.  With zero points, the range of the group, extended to include 0, is divided into ``2 ** bits - 1`` steps,
    and ``zero`` is the step nearest to 0, so that 0 is represented exactly.

The error of a weight is at most half a scale in case 1, and one scale in case 2, where aligning 0 with a step
shifts the ends of the range by up to half a step.

Scales are rounded up to numbers that float16 holds, by less than a thousandth, so that engines may store them
in two bytes, as llama.cpp's blocks and OpenVINO's compressed weights do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["RoundedWeight", "packed", "rounded"]

_BLOCK_NUMBERS = 1 << 16


@dataclass(frozen=True, slots=True)
class RoundedWeight:
    """A weight as integers.

    Attributes
    ----------
    words
        uint8 [groups, group size]: the groups of the first column of the weight, then those of the next.
    scales
        [groups], in the dtype of the weight; float16 holds them exactly, unless one is below its normal
        numbers, or above all.
    zeros
        uint8 [groups], or a scalar for all groups.
    """

    words: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray


def rounded(columns: np.ndarray, bits: int, group: int, *, zero_points: bool) -> RoundedWeight:
    """Round a weight.

    Parameters
    ----------
    columns
        Finite floats [columns, rows]: the transposed weight.
    bits
        The number of bits per integer, at most 8.
    group
        The number of consecutive weights of a column that share a scale; a divisor of the rows.
    zero_points
        Whether to use case 2 instead of case 1.
    """
    blocks, top = _blocks(columns), 2**bits - 1
    least, greatest = _extremes(blocks, group)
    if zero_points:
        low = np.minimum(least, 0)
        scales = _scales((np.maximum(greatest, 0) - low) / top, columns.dtype)
        zeros = np.clip(np.rint(-low / scales), 0, top)
    else:
        middle = 2 ** (bits - 1)
        scales = _scales(np.maximum(greatest, -least) / (middle - 1), columns.dtype)
        zeros = np.full(1, middle, np.float32)
    shifts = np.broadcast_to(zeros, scales.shape)
    words, begin = np.empty((len(scales), group), np.uint8), 0
    for block in blocks:
        numbers = np.array(block, np.float32, order="C").reshape(-1, group)
        part = slice(begin, begin + len(numbers))
        numbers /= scales[part, None]
        np.rint(numbers, out=numbers)
        numbers += shifts[part, None]
        words[part], begin = np.clip(numbers, 0, top, out=numbers).astype(np.uint8), part.stop
    return RoundedWeight(words, scales.astype(columns.dtype), zeros.astype(np.uint8))


def _blocks(columns: np.ndarray) -> list[np.ndarray]:
    """Parts of the columns that fit a processor's cache: each step on all of them would go through memory."""
    count = max(1, _BLOCK_NUMBERS // max(columns.shape[1], 1))
    return [columns[first : first + count] for first in range(0, max(len(columns), 1), count)]


def _extremes(blocks: Sequence[np.ndarray], group: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest number of each group, as float32."""
    least, greatest = [], []
    for block in blocks:
        numbers = np.ascontiguousarray(block.reshape(-1, group).T)  # NumPy reduces the first axis faster
        least.append(numbers.min(axis=0))
        greatest.append(numbers.max(axis=0))
    return np.concatenate(least).astype(np.float32), np.concatenate(greatest).astype(np.float32)


def _scales(steps: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The scales rounded to the dtype of the weight, as float32; 1 in place of zeros and subnormals."""
    held = steps.astype(dtype).astype(np.float32)
    return _rounded_up(np.where(held < np.finfo(np.float32).tiny, np.float32(1), held))


def _rounded_up(scales: np.ndarray) -> np.ndarray:
    """The nearest numbers of float16 that are not less, if all are among its normal numbers."""
    bounds = np.finfo(np.float16)
    if not ((scales >= bounds.tiny) & (scales <= bounds.max)).all():
        return scales
    nearest = scales.astype(np.float16)
    above = np.nextafter(nearest, np.float16(np.inf))
    return np.where(nearest < scales, above, nearest).astype(np.float32)


def packed(words: np.ndarray) -> np.ndarray:
    """Pairs of 4-bit integers as bytes, the first in the low bits; the last axis must be even."""
    return np.asarray(words[..., 0::2] | words[..., 1::2] << 4)
