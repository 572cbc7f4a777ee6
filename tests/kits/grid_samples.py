"""What samples of images at computed places are, in double precision."""

from __future__ import annotations

import itertools

import numpy as np

__all__ = ["sampled"]


def sampled(image: np.ndarray, grid: np.ndarray, method: str, outside: str, aligned: bool) -> np.ndarray:
    """Samples of each channel of `image`, at places whose coordinates are along axis 1 of `grid`.

    Parameters
    ----------
    image
        Of the axes batch, channels, and two or three more.
    grid
        The last coordinate is that of the first axis.
    method
        ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
    outside
        ``"zeros"``, ``"border"`` or ``"reflection"``.
    aligned
        Whether -1 and 1 are the centers of the outer pixels.
    """
    image, grid = image.astype("float64"), grid.astype("float64")
    extents = image.shape[2:]
    lines = [
        _pixels(coordinates, extent, method, outside, aligned)
        for coordinates, extent in zip(np.moveaxis(grid, 1, 0)[::-1], extents, strict=True)
    ]
    batch = np.arange(len(image)).reshape(-1, *(1 for _ in extents))
    result = np.zeros((*image.shape[:2], *grid.shape[2:]))
    for pixels in itertools.product(*lines):
        weight = np.prod([weight for _, weight in pixels], axis=0)
        is_there = np.all(
            [(place >= 0) & (place < extent) for (place, _), extent in zip(pixels, extents, strict=True)],
            axis=0,
        )
        at = [np.where(is_there, place, 0).astype("int64") for place, _ in pixels]
        numbers = np.moveaxis(np.moveaxis(image, 1, -1)[(batch, *at)], -1, 1)
        result += np.where(is_there[:, None], numbers, 0) * weight[:, None]
    return result


def _pixels(
    coordinates: np.ndarray, extent: int, method: str, outside: str, aligned: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The places of the pixels along one axis, and their weights."""
    place = (coordinates + 1) * (extent - 1) / 2 if aligned else ((coordinates + 1) * extent - 1) / 2
    if method == "bicubic":
        base = np.floor(place)
        return [
            (_moved_inside(base + step, extent, outside, aligned), _cubic(place - base - step))
            for step in range(-1, 3)
        ]
    place = _moved_inside(place, extent, outside, aligned)
    if method == "nearest":
        return [(np.rint(place), np.ones(place.shape))]
    base = np.floor(place)
    return [(base, 1 - (place - base)), (base + 1, place - base)]


def _moved_inside(place: np.ndarray, extent: int, outside: str, aligned: bool) -> np.ndarray:
    """Reflection is the wave of triangles whose period is twice the extent."""
    if outside == "reflection":
        first, span = (0.0, extent - 1) if aligned else (-0.5, extent)
        if span:
            phase = np.mod(place - first, 2 * span)
            place = np.minimum(phase, 2 * span - phase) + first
    return place if outside == "zeros" else np.clip(place, 0, extent - 1)


def _cubic(distance: np.ndarray) -> np.ndarray:
    """Keys' kernel with the coefficient -0.75, by the distance of a pixel."""
    x = np.abs(distance)
    near, far = 1.25 * x**3 - 2.25 * x**2 + 1, -0.75 * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
