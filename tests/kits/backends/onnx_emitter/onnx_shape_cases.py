"""One strategy an op that moves, looks up or makes values; with these, the cases of all ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op

from kits.backends.onnx_emitter.onnx_case_kit import (
    NUMBERS,
    Draw,
    Graph,
    axis_of,
    broadcast,
    case,
    extents,
    some,
)
from kits.backends.onnx_emitter.onnx_cases import CASES

__all__ = ["CASES"]


# --- shapes


@case("reshape", dtypes=(*NUMBERS, "bool"))
def reshape(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    after = [*draw(st.permutations(shape)), 1]
    return Graph((some(draw, shape, dtype),), lambda x: op.reshape(x, after))


@case("flatten", "nn.batch_flatten", "permute_dims")
def rearrangement(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw, 2), dtype),), function)


@case("squeeze")
def squeeze(draw: Draw, dtype: str) -> Graph:
    shape = (1, *extents(draw, 1, 2), 1)
    axes = draw(st.sampled_from([None, [0], [-1], [0, -1]]))
    return Graph((some(draw, shape, dtype),), lambda x: op.squeeze(x, axes))


@case("expand_dims")
def expand_dims(draw: Draw, dtype: str) -> Graph:
    axes = draw(st.sampled_from([[0], [-1], [0, 2], [1]]))
    return Graph((some(draw, extents(draw, 1, 3), dtype),), lambda x: op.expand_dims(x, axes))


@case("broadcast_to")
def broadcast_to(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    return Graph((some(draw, broadcast(draw, shape), dtype),), lambda x: op.broadcast_to(x, shape))


@case("concat", "stack", dtypes=(*NUMBERS, "bool"))
def joined(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    axis, count = axis_of(draw, shape), draw(st.integers(1, 3))
    return Graph(tuple(some(draw, shape, dtype) for _ in range(count)), lambda *x: function(list(x), axis))


@case("split")
def split(draw: Draw, dtype: str) -> Graph:
    where = draw(st.sampled_from([2, 3, [1, 4], [2]]))
    axis = draw(st.sampled_from([0, -1]))

    def make(x: relax.Expr) -> tuple[relax.Expr, ...]:
        parts = op.split(x, where, axis)
        return tuple(op.negative(parts[index]) for index in range(2))

    return Graph((some(draw, (6, 2, 6), dtype),), make)


@case("strided_slice", dtypes=(*NUMBERS, "bool"))
def strided_slice(draw: Draw, dtype: str) -> Graph:
    begin, end, step = draw(st.sampled_from([(0, 3, 1), (1, 9, 2), (-3, -1, 1), (4, 0, -2)]))
    axis = draw(st.sampled_from([0, 1]))
    return Graph((some(draw, (5, 6), dtype),), lambda x: op.strided_slice(x, [axis], [begin], [end], [step]))


@case("flip")
def flip(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis = axis_of(draw, shape)
    return Graph((some(draw, shape, dtype),), lambda x: op.flip(x, axis))


@case("tile")
def tile(draw: Draw, dtype: str) -> Graph:
    repeats = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    return Graph((some(draw, extents(draw, 1, 3), dtype),), lambda x: op.tile(x, repeats))


@case("repeat")
def repeat(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw, 1, 3)
    axis = None if draw(st.booleans()) else axis_of(draw, shape)
    return Graph((some(draw, shape, dtype),), lambda x: op.repeat(x, 3, axis))


@case("nn.pad")
def pad(draw: Draw, dtype: str) -> Graph:
    mode = draw(st.sampled_from(["constant", "reflect", "replicate"]))
    widths = [0, 0, *(draw(st.integers(0, 2)) for _ in range(4))]
    return Graph((some(draw, (2, 3, 4), dtype),), lambda x: op.nn.pad(x, widths, mode, 1.5))


# --- indices


@case("take", dtypes=("float32", "float16", "int64", "bool"))
def take(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis, mode = axis_of(draw, shape), draw(st.sampled_from(["fast", "clip", "wrap"]))
    extent = shape[axis]
    values = st.integers(0, extent - 1) if mode == "fast" else st.integers(-9, 9)
    kind, rank = draw(st.sampled_from(["int32", "int64"])), draw(st.integers(0, 2))
    indices = np.array([draw(values) for _ in range(2**rank)], kind).reshape([2] * rank)
    return Graph((some(draw, shape, dtype), indices), lambda x, i: op.take(x, i, axis, mode))


@case("gather_elements")
def gather_elements(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    axis = axis_of(draw, shape)
    indices = some(draw, shape, "int64", 0, 9) % shape[axis]
    return Graph((some(draw, shape, dtype), indices), lambda x, i: op.gather_elements(x, i, axis))


@case("gather_nd")
def gather_nd(draw: Draw, dtype: str) -> Graph:
    indices = np.array(
        draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=4))
    )
    return Graph((some(draw, (3, 4, 2), dtype), indices.astype("int64")), op.gather_nd)


@case("scatter_elements", dtypes=("float32",))
def scatter_elements(draw: Draw, dtype: str) -> Graph:
    reduction = draw(st.sampled_from(["update", "add"]))
    rows = np.array(draw(st.permutations(range(5)))[:3], "int64")
    return Graph(
        (some(draw, (5, 2), dtype), np.stack([rows, rows], 1), some(draw, (3, 2), dtype)),
        lambda x, i, u: op.scatter_elements(x, i, u, 0, reduction),
    )


@case("scatter_nd", dtypes=("float32",))
def scatter_nd(draw: Draw, dtype: str) -> Graph:
    reduction = draw(st.sampled_from(["update", "add"]))
    rows = np.array(draw(st.permutations(range(5)))[:3], "int64")[:, None]
    return Graph(
        (some(draw, (5, 2), dtype), rows, some(draw, (3, 2), dtype)),
        lambda x, i, u: op.scatter_nd(x, i, u, reduction),
    )


@case("one_hot", dtypes=("int64",))
def one_hot(draw: Draw, dtype: str) -> Graph:
    axis = draw(st.sampled_from([0, -1]))
    indices = some(draw, extents(draw, 0, 2), dtype, -1, 2)
    return Graph(
        (indices,),
        lambda i: op.one_hot(i, 1.0, 0.0, 5, axis),
    )


# --- values made from nothing


@case("zeros", "ones")
def filled(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    shape = extents(draw)
    return Graph((some(draw, shape, dtype),), lambda x: op.add(x, function(shape, dtype)))


@case("zeros_like", "ones_like", dtypes=NUMBERS)
def filled_like(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    return Graph((some(draw, extents(draw), dtype),), lambda x: op.add(x, function(x)))


@case("full", dtypes=NUMBERS)
def full(draw: Draw, dtype: str) -> Graph:
    shape = extents(draw)
    return Graph(
        (some(draw, shape, dtype),), lambda x: op.add(x, op.full(shape, relax.const(3, dtype), dtype))
    )


@case("full_like", dtypes=NUMBERS)
def full_like(draw: Draw, dtype: str) -> Graph:
    return Graph(
        (some(draw, extents(draw), dtype),), lambda x: op.add(x, op.full_like(x, relax.const(3, dtype)))
    )


@case("arange", dtypes=("float32", "int64"))
def arange(draw: Draw, dtype: str) -> Graph:
    count = draw(st.integers(1, 5))
    return Graph((some(draw, (count,), dtype),), lambda x: op.add(x, op.arange(1, 1 + 2 * count, 2, dtype)))


@case("shape_to_tensor", dtypes=("int64",))
def numbers_of_a_shape(draw: Draw, dtype: str) -> Graph:
    shape = relax.ShapeExpr(extents(draw))
    given = some(draw, (len(shape.values),), dtype)
    return Graph((given,), lambda x: op.add(x, op.shape_to_tensor(shape)))


@case("triu", "tril", dtypes=("float32", "int64"))
def triangle(draw: Draw, dtype: str, function: Callable[..., Any]) -> Graph:
    offset = draw(st.integers(-1, 2))
    return Graph((some(draw, extents(draw, 2), dtype),), lambda x: function(x, offset))
