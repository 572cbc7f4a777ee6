"""Recipes of image ops: resizing, sampling at given positions, regions of interest."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import Recipe, Workbench, call_of, extents_of

__all__ = ["recipes"]

_WAYS = (("nearest_neighbor", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"))


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    return {
        "relax.image.resize2d": partial(_resized, "relax.image.resize2d", 4),
        "relax.image.resize3d": partial(_resized, "relax.image.resize3d", 5),
        "relax.image.grid_sample": _grid_sample,
        "relax.image.affine_grid": _affine_grid,
        "relax.vision.roi_align": _roi_align,
        "relax.nn.pixel_shuffle": _pixel_shuffle,
    }


def _resized(name: str, rank: int, bench: Workbench) -> relax.Expr | None:
    value = bench.value(rank)
    if value is None:
        return None
    size = _sizes(bench, value)
    method, places = bench.draw(st.sampled_from(_WAYS))
    return call_of(name)(
        value, size, method=method, coordinate_transformation_mode=places, rounding_method=_rounding(method)
    )


def _sizes(bench: Workbench, value: relax.Expr) -> relax.ShapeExpr:
    """Along each spatial axis, the same extent or twice the extent."""
    return relax.ShapeExpr(
        [bench.draw(st.sampled_from((extent, 2 * extent))) for extent in extents_of(value)[2:]]
    )


def _rounding(method: str) -> str:
    return "floor" if method == "nearest_neighbor" else "round"


def _grid_sample(bench: Workbench) -> relax.Expr | None:
    """At constant positions inside and around the image; none is halfway between two pixels."""
    if not bench.dtype.startswith("float"):
        return None
    value = bench.value(4)
    if value is None:
        return None
    shape = (extents_of(value)[0], 2, *(bench.draw(st.integers(1, 4)) for _axis in range(2)))
    places = np.random.default_rng(bench.draw(st.integers(0, 9))).uniform(-1.3, 1.3, shape)
    return relax.op.image.grid_sample(
        value,
        relax.const(places.astype(bench.dtype)),
        method=bench.draw(st.sampled_from(("bilinear", "nearest"))),
        padding_mode=bench.draw(st.sampled_from(("zeros", "border"))),
        align_corners=bench.draw(st.booleans()),
    )


def _affine_grid(bench: Workbench) -> relax.Expr | None:
    if not bench.dtype.startswith("float"):
        return None
    rank = bench.draw(st.sampled_from((2, 3)))
    size = [bench.draw(st.integers(2, 5)) for _axis in range(rank)]
    theta = bench.tensor([bench.draw(st.integers(1, 2)), rank, rank + 1])
    return relax.op.image.affine_grid(theta, size, bench.draw(st.booleans()))


def _roi_align(bench: Workbench) -> relax.Expr | None:
    """Of new images, with constant boxes; a box is an image index and two ordered corners."""
    if not bench.dtype.startswith("float"):
        return None
    images, count = bench.draw(st.integers(1, 2)), bench.draw(st.integers(1, 3))
    random = np.random.default_rng(bench.draw(st.integers(0, 9)))
    corners = np.sort(random.uniform(0, 7, (count, 2, 2)), axis=1).reshape(count, 4)
    boxes = np.concatenate([random.integers(0, images, (count, 1)), corners], axis=1)
    return relax.op.vision.roi_align(
        bench.tensor([images, bench.draw(st.integers(1, 3)), 8, 8]),
        relax.const(boxes.astype(bench.dtype)),
        bench.draw(st.sampled_from(((2, 3), (1, 1)))),
        bench.draw(st.sampled_from((1.0, 0.5))),
        bench.draw(st.sampled_from((1, 2))),
        bench.draw(st.booleans()),
    )


def _pixel_shuffle(bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    if value is None:
        return None
    channels = extents_of(value)[1]
    factors = [factor for factor in (1, 2) if channels % factor**2 == 0]
    return relax.op.nn.pixel_shuffle(value, bench.draw(st.sampled_from(factors)))
