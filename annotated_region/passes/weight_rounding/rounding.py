"""Rounds a float matrix to whole numbers of few bits, with a scale for each group of a column.

A group is a run of neighbouring weights that one element of the result adds up. Its numbers ``w`` become

    q = round(w / scale) + zero        0 <= q < 2 ** bits

and stand for ``(q - zero) * scale``. Both roundings are to the nearest number, ties to even (Jacob et al.
2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
section 2.1).

1.  Without zero points, ``zero`` is the middle ``2 ** (bits - 1)``, and the scale maps the largest magnitude
    of the group to ``2 ** (bits - 1) - 1``.
2.  With zero points, the range from the least number, or 0, to the largest, or 0, is cut into
    ``2 ** bits - 1`` steps, and ``zero`` is the step on which 0 lies, so that 0 stays 0.

No weight moves by more than half a scale in case 1, or one scale in case 2, where the ends of the range move
with 0 to the next step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["RoundedWeight", "packed", "rounded"]


@dataclass(frozen=True, slots=True)
class RoundedWeight:
    """A weight as whole numbers.

    Attributes
    ----------
    words
        uint8 [groups, group size]: the groups of the first column of the weight, then those of the next.
    scales
        [groups], of the type of the weight.
    zeros
        uint8 [groups], or one number that serves all groups.
    """

    words: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray


def rounded(columns: np.ndarray, bits: int, group: int, *, zero_points: bool) -> RoundedWeight:
    """Round a weight.

    Parameters
    ----------
    columns
        Floats [columns, rows], all finite: each row of it is a column of the weight.
    bits
        Of each whole number, at most 8.
    group
        How many neighbouring numbers of a column share a scale; it divides the rows.
    zero_points
        Case 2, instead of case 1.
    """
    groups = columns.reshape(-1, group).astype(np.float32)
    top = 2**bits - 1
    if zero_points:
        low = np.minimum(groups.min(axis=1), 0)
        scales = _scales((np.maximum(groups.max(axis=1), 0) - low) / top, columns.dtype)
        zeros = np.clip(np.rint(-low / scales), 0, top)
    else:
        middle = 2 ** (bits - 1)
        scales = _scales(np.abs(groups).max(axis=1) / (middle - 1), columns.dtype)
        zeros = np.full(1, middle, np.float32)
    words = np.clip(np.rint(groups / scales[:, None]) + zeros[:, None], 0, top).astype(np.uint8)
    return RoundedWeight(words, scales.astype(columns.dtype), zeros.astype(np.uint8))


def _scales(steps: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Scales that the type of the weight holds, in float32; 1 where a group is all zeros, or next to it."""
    held = steps.astype(dtype).astype(np.float32)
    return np.where(held < np.finfo(np.float32).tiny, np.float32(1), held)


def packed(words: np.ndarray) -> np.ndarray:
    """Numbers of 4 bits in pairs, the first of each in the lower bits of a byte; the last axis is even."""
    return np.asarray(words[..., 0::2] | words[..., 1::2] << 4)
