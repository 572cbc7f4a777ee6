"""Interpolation weights along one axis, in numpy, as ONNX's ``Resize`` defines them.

Interpolation is separable and linear in the data, so an axis of ``n`` elements is resized to ``m`` by an
``m`` by ``n`` matrix. Row ``i`` has the kernel of the interpolation, centred at the coordinate of
result ``i``; weights beyond an end are added to that of the element at the end. With antialiasing the kernel
is stretched by the inverse of the scale, so that no element is skipped.

The cubic kernel is that of R. Keys, "Cubic convolution interpolation for digital image processing" (1981).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["AxisScale", "Interpolation", "nearest_elements", "reach", "weights"]


@dataclass(frozen=True, slots=True)
class AxisScale:
    """An axis before and after resizing: its extents, and the scale, which may differ from their ratio."""

    before: int
    after: int
    scale: float


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The attributes of ``Resize`` that determine the interpolation, by their names in ONNX."""

    mode: str
    coordinates: str
    nearest_mode: str
    cubic_coeff_a: float
    antialias: bool
    exclude_outside: bool


def source_coordinates(mode: str, axis: AxisScale) -> np.ndarray:
    """The coordinate of each result on the original axis, in elements; 0 is the centre of the first one.

    In float32, as in ONNX Runtime: ``nearest`` rounds the coordinates, so the last bit may decide.
    """
    results, scale = np.arange(axis.after, dtype="float32"), np.float32(axis.scale)
    if mode == "align_corners":
        return results * np.float32(axis.before - 1) / np.float32(max(axis.after - 1, 1))
    if mode == "asymmetric":
        return results / scale
    if mode == "pytorch_half_pixel" and axis.after == 1:
        return np.zeros(1, "float32")
    half = np.float32(0.5)
    if mode == "tf_half_pixel_for_nn":
        return (results + half) / scale
    centres: np.ndarray = (results + half) / scale - half
    if mode == "half_pixel_symmetric":
        # The centre of the axis stays in the centre, also if the scale and the extents do not agree.
        adjusted = np.float32(axis.after) / (scale * np.float32(axis.before))
        centres += np.float32(axis.before / 2) * (np.float32(1) - adjusted)
    return centres


def nearest_elements(how: Interpolation, axis: AxisScale) -> np.ndarray:
    """The index of the nearest element of each result."""
    places = source_coordinates(how.coordinates, axis)
    rounded = {
        "round_prefer_floor": np.ceil(places - 0.5),
        "round_prefer_ceil": np.floor(places + 0.5),
        "floor": np.floor(places),
        "ceil": np.ceil(places),
    }[how.nearest_mode]
    inside: np.ndarray = np.clip(rounded, 0, axis.before - 1)
    return inside.astype("int64")


def reach(how: Interpolation, axis: AxisScale) -> int:
    """The number of elements that the kernel covers on each side of its centre."""
    return int(np.ceil((1 if how.mode == "linear" else 2) * _stretch(how, axis)))


def _stretch(how: Interpolation, axis: AxisScale) -> float:
    return max(1.0, 1.0 / axis.scale) if how.antialias else 1.0


def weights(how: Interpolation, axis: AxisScale) -> np.ndarray:
    """The matrix of linear or cubic interpolation: shape ``(after, before)``, float64, rows with sum 1."""
    centres = source_coordinates(how.coordinates, axis).astype("float64")
    width = reach(how, axis)
    taps = np.floor(centres).astype("int64")[:, None] + np.arange(-width, width + 2)[None, :]
    distances = np.abs(taps - centres[:, None]) / _stretch(how, axis)
    shares = np.maximum(0.0, 1.0 - distances) if how.mode == "linear" else _keys(distances, how.cubic_coeff_a)
    if how.exclude_outside:
        shares = np.where((taps >= 0) & (taps < axis.before), shares, 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    matrix = np.zeros((axis.after, axis.before))
    rows = np.broadcast_to(np.arange(axis.after)[:, None], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, axis.before - 1)), shares)
    return matrix


def _keys(distances: np.ndarray, a: float) -> np.ndarray:
    """The two cubic pieces, for distances up to 1 and up to 2."""
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((distances - 5) * distances + 8) * distances * a - 4 * a
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))
