"""What means of boxes of images are, in double precision."""

from __future__ import annotations

import numpy as np

__all__ = ["box_means"]


def box_means(
    image: np.ndarray, rows: np.ndarray, size: tuple[int, int], scale: float, samples: int, is_exact: bool
) -> np.ndarray:
    """The mean of each part of each box, of each channel.

    Parameters
    ----------
    image
        Of the axes batch, channels, rows and columns.
    rows
        The number of an image, and the first and the last corner of a box, columns first.
    size
        The rows and columns of parts.
    scale
        The factor from the coordinates of boxes to those of the image.
    samples
        How many samples a part has along each axis.
    is_exact
        Whether a box may be smaller than a pixel.
    """
    image, rows = image.astype("float64"), rows.astype("float64")
    result = np.zeros((len(rows), image.shape[1], *size))
    for number, row in enumerate(rows):
        corners = row[1:] * scale
        down, along = (
            _weights(corners[at], corners[at + 2], parts, extent, samples, is_exact)
            for at, parts, extent in zip((1, 0), size, image.shape[2:], strict=True)
        )
        result[number] = np.einsum("ph,qw,chw->cpq", down, along, image[int(row[0])])
    return result


def _weights(first: float, last: float, parts: int, extent: int, samples: int, is_exact: bool) -> np.ndarray:
    """How much each pixel of an axis counts in each part."""
    size = last - first if is_exact else max(last - first, 1.0)
    steps = (np.arange(parts * samples) + 0.5) / samples
    place = first + steps * size / parts
    inner = np.clip(place, 0, extent - 1)
    distance = np.abs(inner[:, None] - np.arange(extent))
    is_inside = (place >= -1) & (place <= extent)
    taps = np.clip(1 - distance, 0, None) * is_inside[:, None]
    means: np.ndarray = taps.reshape(parts, samples, extent).mean(axis=1)
    return means
