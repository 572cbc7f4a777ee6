"""The indices of nearest neighbours, computed as in TVM, and whether all engines find the same ones.

Engines compute the coordinate of each result in floating point and round it. If it is on the edge between
two elements, the last bit decides, and engines differ in it. ONNX's ``Resize`` computes the same as TVM if no
exact coordinate is near an edge. Otherwise the elements are gathered by their indices, which are computed
here in TVM's order of operations in float32.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from annotated_region.targets.translation import Declined

__all__ = ["ROUNDINGS", "is_safe", "neighbours"]

ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
"""TVM's rounding methods that ONNX has as well; ``round``, which rounds to even, it has not."""

MARGIN = Fraction(1, 1000)
"""The minimum distance of a coordinate from an edge, in elements; float32 is exact enough up to 10 000."""

# TVM adds or subtracts this before it rounds a coordinate down or up.
_EPSILON = np.float32(1e-5)


def neighbours(before: int, after: int, coordinates: str, rounding: str) -> np.ndarray:
    """For each of `after` results the index of its element among `before`, as TVM's topi computes it.

    Raises
    ------
    Declined
        The coordinates or the rounding method are not supported here.
    """
    place = np.arange(after, dtype=np.float32)
    if coordinates == "asymmetric" and rounding == "floor" and after % before == 0:
        return np.arange(after) // (after // before)
    found = _rounded(_coordinates(place, before, after, coordinates), rounding)
    return np.clip(found.astype(np.int64), 0, before - 1)


def _coordinates(place: np.ndarray, before: int, after: int, coordinates: str) -> np.ndarray:
    one_half = np.float32(0.5)
    scale = np.float32(before) / np.float32(after)
    if coordinates == "asymmetric":
        return np.asarray(scale * place)
    if coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and after > 1):
        return np.asarray((place + one_half) * scale - one_half)
    if coordinates == "pytorch_half_pixel":
        return np.zeros_like(place)
    if coordinates == "tf_half_pixel_for_nn":
        return np.asarray((place + one_half) * scale)
    if coordinates == "align_corners" and after > 1:
        return np.asarray(np.float32(before - 1) / np.float32(after - 1) * place)
    raise Declined(f"nearest neighbours by coordinates {coordinates}")


def _rounded(at: np.ndarray, rounding: str) -> np.ndarray:
    one_half = np.float32(0.5)
    if rounding == "round":
        return np.round(at)
    if rounding == "round_prefer_floor":
        return np.ceil(at - one_half)
    if rounding == "round_prefer_ceil":
        return np.floor(at + one_half)
    if rounding == "floor":
        return np.floor(at + _EPSILON)
    if rounding == "ceil":
        return np.ceil(at - _EPSILON)
    raise Declined(f"nearest neighbours by the rounding {rounding}")


def is_safe(before: int, after: int, coordinates: str, rounding: str) -> bool:
    """Whether every engine that follows ONNX finds the same elements as `neighbours`."""
    if rounding not in ROUNDINGS:
        return False
    if coordinates == "asymmetric" and rounding == "floor" and after % before == 0:
        return True  # quotients of integers by an integer: exact if they have no fraction
    offset = {"half_pixel": Fraction(1, 2), "asymmetric": Fraction(0)}.get(coordinates)
    if offset is None:
        return False
    exact = ((place + offset) * Fraction(before, after) - offset for place in range(after))
    return all(_distance(at, before, rounding) > MARGIN for at in exact)


def _distance(at: Fraction, before: int, rounding: str) -> Fraction:
    """The distance of a coordinate from the next edge between two elements."""
    offset = {"floor": Fraction(1), "ceil": Fraction(0)}.get(rounding, Fraction(1, 2))
    number = min(max(round(at - offset), 0), before - 2)  # of the edge; there are before - 1 of them
    return abs(at - offset - number) if before > 1 else Fraction(1)
