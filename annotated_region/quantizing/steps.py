"""Scales and zero points: the affine mapping from 8-bit integers to real numbers.

``(number - zero) * scale``, which represents 0 exactly (Jacob et al. 2018, "Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from annotated_region.quantizing.ranges import ValueRange

__all__ = ["RoundedChannels", "Steps", "rounded_channels", "steps_of"]

_STEPS = 255
_LARGEST_WEIGHT = 127
_LEAST_SCALE = np.finfo(np.float32).tiny


@dataclass(frozen=True, slots=True)
class Steps:
    """The quantization parameters of a tensor.

    Attributes
    ----------
    scale
        The size of one step, a float32.
    zero
        The integer that represents 0.
    dtype
        ``"uint8"`` or ``"int8"``.
    """

    scale: np.float32
    zero: int
    dtype: str


def steps_of(reach: ValueRange, dtype: str, *, symmetric: bool) -> Steps:
    """The steps that cover a range.

    Parameters
    ----------
    reach
        The range; it contains more than 0.
    dtype
        The dtype of the integers.
    symmetric
        Whether the range is made symmetric about 0, for signed dtypes: the zero point of int8 is then 0.
    """
    least = -128 if dtype == "int8" else 0
    if symmetric and dtype == "int8":
        return Steps(_scale(max(-reach.low, reach.high) / _LARGEST_WEIGHT), 0, dtype)
    scale = _scale((reach.high - reach.low) / _STEPS)
    return Steps(scale, int(np.clip(np.rint(-reach.low / scale), 0, _STEPS)) + least, dtype)


def _scale(step: float) -> np.float32:
    return max(np.float32(step), _LEAST_SCALE)


@dataclass(frozen=True, slots=True)
class RoundedChannels:
    """A weight as integers, with a scale for each channel.

    Attributes
    ----------
    numbers
        int8, of the shape of the weight, from -127 to 127.
    scales
        float32 [channels].
    """

    numbers: np.ndarray
    scales: np.ndarray


def rounded_channels(weight: np.ndarray, axis: int) -> RoundedChannels:
    """Round a finite weight, each channel along `axis` by its largest magnitude; zeros get scale 1."""
    others = tuple(number for number in range(weight.ndim) if number != axis)
    steps = (np.abs(weight).max(axis=others, initial=0) / _LARGEST_WEIGHT).astype(np.float32)
    scales = np.where(steps < _LEAST_SCALE, np.float32(1), steps)
    spread = scales.reshape([-1 if number == axis else 1 for number in range(weight.ndim)])
    numbers = np.clip(np.rint(weight / spread), -_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int8)
    return RoundedChannels(numbers, scales)
