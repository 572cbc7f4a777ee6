"""Deformable convolutions in numpy and double precision, sample by sample, and random ones of any form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Deformed", "convolved"]


@dataclass(frozen=True, slots=True)
class Deformed:
    """A form of deformable convolutions."""

    batch: int = 2
    channels: int = 4
    size: tuple[int, int] = (7, 6)
    outputs: int = 6
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    offset_groups: int = 1
    has_factors: bool = True
    has_bias: bool = True
    reach: float = 1.5

    @property
    def after(self) -> tuple[int, int]:
        """The extents of the result."""
        rows, columns = (
            (extent + self.padding[axis] + self.padding[axis + 2] - (count - 1) * dilation - 1) // stride + 1
            for axis, (extent, count, dilation, stride) in enumerate(
                zip(self.size, self.kernel, self.dilations, self.strides, strict=True)
            )
        )
        return rows, columns

    def arrays(self, seed: int = 0, dtype: str = "float32") -> Mapping[str, np.ndarray]:
        """Random operands by name; one offset in eight is whole, one in sixteen is far outside."""
        rng = np.random.default_rng(seed)
        points = self.offset_groups * self.kernel[0] * self.kernel[1]
        offset = rng.normal(0, self.reach, (self.batch, 2 * points, *self.after))
        chosen = rng.integers(0, 16, offset.shape)
        offset = np.where(chosen < 2, np.round(offset), np.where(chosen == 2, 40 * offset, offset))
        made = {
            "x": rng.standard_normal((self.batch, self.channels, *self.size)),
            "w": rng.standard_normal((self.outputs, self.channels // self.groups, *self.kernel)),
            "offset": offset,
        }
        if self.has_bias:
            made["b"] = rng.standard_normal(self.outputs)
        if self.has_factors:
            made["mask"] = rng.uniform(0, 1, (self.batch, points, *self.after))
        return {name: array.astype(dtype) for name, array in made.items()}


def convolved(form: Deformed, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result in double precision, one sample after the other."""
    x, w, offset = (arrays[name].astype("float64") for name in ("x", "w", "offset"))
    points = form.kernel[0] * form.kernel[1]
    offset = offset.reshape(form.batch, form.offset_groups, points, 2, *form.after)
    factors = arrays["mask"].astype("float64") if "mask" in arrays else np.ones_like(offset[:, :, :, 0])
    factors = factors.reshape(form.batch, form.offset_groups, points, *form.after)
    result = np.zeros((form.batch, form.outputs, *form.after))
    for image, channel, point in np.ndindex(form.batch, form.channels, points):
        group = channel * form.offset_groups // form.channels
        inner = form.channels // form.groups
        mine = channel // inner
        kept = slice(mine * form.outputs // form.groups, (mine + 1) * form.outputs // form.groups)
        weight = w[kept, channel % inner, point // form.kernel[1], point % form.kernel[1]]
        for place in np.ndindex(*form.after):
            where = [
                place[axis] * form.strides[axis]
                - form.padding[axis]
                + (point // form.kernel[1], point % form.kernel[1])[axis] * form.dilations[axis]
                + offset[(image, group, point, axis, *place)]
                for axis in (0, 1)
            ]
            sample = _sample(x[image, channel], where) * factors[(image, group, point, *place)]
            result[(image, kept, *place)] += weight * sample
    if "b" in arrays:
        result += arrays["b"].astype("float64")[:, None, None]
    return result


def _sample(plane: np.ndarray, where: list[float]) -> float:
    """The weighted sum of the four elements around a place."""
    total = 0.0
    low = [int(np.floor(each)) for each in where]
    for row in (low[0], low[0] + 1):
        for column in (low[1], low[1] + 1):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                share = (1 - abs(where[0] - row)) * (1 - abs(where[1] - column))
                total += share * float(plane[row, column])
    return total
