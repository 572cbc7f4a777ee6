"""One strategy an op that takes elements from computed places, or that makes places and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from kits.backends.onnx_emitter.onnx_case_kit import NUMBERS, Draw, Graph, case, extents, some
from kits.backends.onnx_emitter.onnx_number_cases import CASES

__all__ = ["CASES"]

COORDINATES = ("half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


# --- places


@case("index_tensor", dtypes=("float32", "int64", "bool"))
def index_tensor(draw: Draw, dtype: str) -> Graph:
    count = draw(st.integers(1, 3))
    shapes = draw(st.sampled_from([[(3,), (3,), (3,)], [(2, 1), (1, 3), (1,)], [(4,), (1,), (4,)]]))[:count]
    data = some(draw, (4, 3, 5), dtype)
    places = [some(draw, shape, "int64", 0, 2) % data.shape[axis] for axis, shape in enumerate(shapes)]
    return Graph((data, *places), lambda x, *i: op.index_tensor(x, list(i)))


@case("index_put", dtypes=("float32",))
def index_put(draw: Draw, dtype: str) -> Graph:
    accumulate = draw(st.booleans())
    rows, columns = np.array(draw(st.permutations(range(5)))[:3]), some(draw, (3,), "int64", 0, 1)
    return Graph(
        (some(draw, (5, 4), dtype), rows.astype("int64"), columns, some(draw, (3,), dtype)),
        lambda x, i, j, v: op.index_put(x, (i, j), v, accumulate),
    )


@case("slice_scatter", dtypes=NUMBERS)
def slice_scatter(draw: Draw, dtype: str) -> Graph:
    axis = draw(st.sampled_from([0, 1]))
    begin = draw(st.integers(0, 3))
    end = draw(st.integers(begin + 1, 4))
    shape = [4, 4]
    shape[axis] = end - begin
    return Graph(
        (some(draw, (4, 4), dtype), some(draw, shape, dtype)),
        lambda x, y: op.slice_scatter(x, y, begin, end, 1, axis),
    )


@case("reverse_sequence", dtypes=("float32", "int64", "bool"))
def reverse_sequence(draw: Draw, dtype: str) -> Graph:
    time = draw(st.sampled_from([0, 1]))
    data = some(draw, (4, 4, 2), dtype)
    lengths = np.array([draw(st.integers(1, 4)) for _ in range(4)], "int64")
    return Graph((data, lengths), lambda x, n: op.reverse_sequence(x, n, time, 1 - time))


@case("size", dtypes=NUMBERS)
def size(draw: Draw, dtype: str) -> Graph:
    return Graph((some(draw, extents(draw), dtype),), op.size)


@case("meshgrid", dtypes=("float32", "int64"))
def meshgrid(draw: Draw, dtype: str) -> Graph:
    vectors = tuple(some(draw, (draw(st.integers(1, 4)),), dtype) for _ in range(draw(st.integers(2, 3))))

    def make(*x: relax.Expr) -> tuple[relax.Expr, ...]:
        grids = op.meshgrid(list(x), "ij")
        return tuple(op.negative(grids[index]) for index in range(len(x)))

    return Graph(vectors, make)


@case("nn.pixel_shuffle", dtypes=NUMBERS)
def pixel_shuffle(draw: Draw, dtype: str) -> Graph:
    factor = draw(st.integers(1, 3))
    shape = (2, draw(st.integers(1, 2)) * factor**2, draw(st.integers(1, 3)), 2)

    def by_reshapes(x: relax.Expr) -> relax.Expr:  # TVM 0.27 has no legalization of its own op
        batch, channels, height, width = shape
        apart = op.reshape(x, (batch, channels // factor**2, factor, factor, height, width))
        moved = op.permute_dims(apart, [0, 1, 4, 2, 5, 3])
        return op.reshape(moved, (batch, channels // factor**2, height * factor, width * factor))

    return Graph((some(draw, shape, dtype),), lambda x: op.nn.pixel_shuffle(x, factor), by_reshapes)


# --- made from nothing


@case("eye", dtypes=("float32", "int64", "bool"))
def eye(draw: Draw, dtype: str) -> Graph:
    rows, columns, diagonal = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(-2, 2))
    made = "float32" if dtype == "bool" else dtype
    return Graph(
        (some(draw, (rows, columns), made),), lambda x: op.add(x, op.eye(rows, columns, diagonal, made))
    )


@case("eye_like", dtypes=("float32", "int64"))
def eye_like(draw: Draw, dtype: str) -> Graph:
    diagonal = draw(st.integers(-2, 2))
    return Graph((some(draw, extents(draw, 2, 2), dtype),), lambda x: op.add(x, op.eye_like(x, diagonal)))


@case("hamming_window", dtypes=("float32",))
def hamming_window(draw: Draw, dtype: str) -> Graph:
    count, periodic = draw(st.integers(2, 9)), draw(st.booleans())
    return Graph(
        (some(draw, (count,), dtype),),
        lambda x: op.add(x, op.hamming_window(count, periodic, 0.54, 0.46, dtype)),
    )


# --- images


def _sizes(draw: Draw, rank: int) -> tuple[list[int], list[int]]:
    before = [draw(st.integers(1, 5)) for _ in range(rank)]
    if draw(st.booleans()):
        factor = draw(st.integers(1, 3))
        return before, [max(extent * factor, 2) for extent in before]
    return before, [draw(st.integers(2, 9)) for _ in range(rank)]


@case("image.resize2d", "image.resize3d", dtypes=("float32", "float16"))
def resize(draw: Draw, dtype: str, function: Any) -> Graph:
    rank = 2 if function.__name__ == "resize2d" else 3
    before, after = _sizes(draw, rank)
    coordinates = draw(st.sampled_from(COORDINATES))
    attrs: dict[str, Any] = {"coordinate_transformation_mode": coordinates}
    methods = ["linear", "nearest_neighbor", "nearest_neighbor", *(["cubic"] if rank == 2 else [])]
    attrs["method"] = draw(st.sampled_from(methods)) if dtype == "float32" else "nearest_neighbor"
    if attrs["method"] == "nearest_neighbor":
        attrs["rounding_method"] = draw(st.sampled_from(ROUNDINGS))
    layout = draw(st.sampled_from(["NCHW", "NHWC"])) if rank == 2 else "NCDHW"
    shape = (1, *before, 3) if layout == "NHWC" else (1, 3, *before)
    return Graph((some(draw, shape, dtype),), lambda x: function(x, tuple(after), layout=layout, **attrs))


@case("image.grid_sample", dtypes=("float32",))
def grid_sample(draw: Draw, dtype: str) -> Graph:
    attrs = {
        "method": draw(st.sampled_from(["bilinear", "nearest", "bicubic"])),
        "padding_mode": draw(st.sampled_from(["zeros", "border"])),
        "align_corners": draw(st.booleans()),
    }
    height, width = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    grid = some(draw, (1, 2, 3, 4), dtype, -1.3, 1.3)
    return Graph(
        (some(draw, (1, 2, height, width), dtype), grid), lambda x, g: op.image.grid_sample(x, g, **attrs)
    )


@case("image.affine_grid", dtypes=("float32",))
def affine_grid(draw: Draw, dtype: str) -> Graph:
    rank, corners = draw(st.sampled_from([2, 3])), draw(st.booleans())
    target = tuple(draw(st.integers(2, 5)) for _ in range(rank))
    theta = some(draw, (2, rank, rank + 1), dtype)
    return Graph((theta,), lambda t: op.image.affine_grid(t, target, corners))


@case("vision.roi_align", dtypes=("float32",))
def roi_align(draw: Draw, dtype: str) -> Graph:
    count, aligned = draw(st.integers(1, 3)), draw(st.booleans())
    corners = np.sort(some(draw, (count, 2, 2), dtype, 0, 7), axis=1).reshape(count, 4)
    rows = np.concatenate([some(draw, (count, 1), "int64", 0, 0.3).astype(dtype), corners], 1)
    ratio, scale = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1.0, 0.5]))
    return Graph(
        (some(draw, (2, 3, 8, 8), dtype), rows),
        lambda x, r: op.vision.roi_align(x, r, (2, 3), scale, ratio, aligned),
    )
