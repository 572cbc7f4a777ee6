"""Operators whose results have a given shape: what stands before an operator that reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from kits.importing.drawn_nodes.draw import NodeDraw

__all__ = ["JOINS", "Join", "cast_to"]

Join: TypeAlias = Callable[[NodeDraw, Sequence[int], str], str]
"""The name of a result of a shape and a type."""

UNARY = ("Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Identity", "Softsign")
FLOATS = ("float32", "float64", "float16")


def cast_to(draw: NodeDraw, name: str, dtype: str) -> str:
    """The numbers of a tensor in another type."""
    return draw.node("Cast", name, to=np_dtype_to_tensor_dtype(np.dtype(dtype)))


def by_elements(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    data = draw.tensor(shape, dtype)
    return draw.node(draw.one(UNARY if dtype in FLOATS else ["Identity"]), data)


def by_pairs(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """With an operand that broadcasts, or with one operand twice."""
    data = draw.tensor(shape, dtype)
    kind = draw.one(["Add", "Mul", "Sub"]) if dtype in FLOATS else draw.one(["And", "Or"])
    if dtype not in (*FLOATS, "bool"):
        kind = "Add" if dtype in ("int64", "int32") else "Max"
    if draw.maybe(0.3):
        other = draw.node("Identity", data)
    else:
        part = [draw.one([1, each]) for each in shape][draw.rng.randint(0, len(shape)) :]
        other = draw.tensor(part, dtype)
    return draw.node(kind, *draw.rng.sample([data, other], 2))


def by_condition(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    part = [draw.one([1, each]) for each in shape]
    return draw.node("Where", draw.tensor(part, "bool"), draw.tensor(shape, dtype), draw.tensor((), dtype))


def by_type(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    if dtype == "float16":
        return by_elements(draw, shape, dtype)
    given = "int32" if dtype != "uint8" else "bool"
    return cast_to(draw, draw.tensor(shape, given), dtype)


def by_order(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    if not shape:
        return by_elements(draw, shape, dtype)
    order = draw.rng.sample(range(len(shape)), len(shape))
    given = [shape[order.index(axis)] for axis in range(len(shape))]
    return draw.node("Transpose", draw.tensor(given, dtype), perm=order)


def by_shape(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """Axes joined, or split into two; back to the shape that is wanted."""
    given, wanted = list(shape), list(shape)
    if len(given) > 1:
        axis = draw.rng.randrange(len(given) - 1)
        given[axis : axis + 2] = [given[axis] * given[axis + 1]]
    else:
        given.insert(draw.rng.randint(0, len(given)), 1)
    if wanted and np.prod(shape) and draw.maybe(0.4):
        wanted[draw.rng.randrange(len(wanted))] = -1
    return draw.node("Reshape", draw.tensor(given, dtype), draw.longs(wanted))


def by_axes(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """An axis of one element less or more."""
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    is_added = bool(ones) and draw.maybe()
    axis = draw.one(ones) if is_added else draw.rng.randint(0, len(shape))
    given = list(shape)
    if is_added:
        given.pop(axis)
    else:
        given.insert(axis, 1)
    kind, data = "Unsqueeze" if is_added else "Squeeze", draw.tensor(given, dtype)
    return (
        draw.node(kind, data, draw.longs([axis])) if draw.opset >= 13 else draw.node(kind, data, axes=[axis])
    )


def by_parts(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """Two tensors one behind the other, or one twice."""
    if not shape:
        return by_elements(draw, shape, dtype)
    axis = draw.rng.randrange(len(shape))
    first = draw.rng.randint(0, shape[axis])
    parts = [
        draw.tensor([*shape[:axis], each, *shape[axis + 1 :]], dtype) for each in (first, shape[axis] - first)
    ]
    if first * 2 == shape[axis] and draw.maybe():
        parts[1] = parts[0]
    return draw.node("Concat", *parts, axis=draw.axis_of(axis, len(shape)))


def by_cut(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """A slice of a longer one."""
    if not shape or draw.opset < 10:
        return by_elements(draw, shape, dtype)
    axis = draw.rng.randrange(len(shape))
    before, behind = draw.rng.randint(0, 2), draw.rng.randint(0, 2)
    data = draw.tensor([*shape[:axis], before + shape[axis] + behind, *shape[axis + 1 :]], dtype)
    end = -behind if behind and draw.maybe() else before + shape[axis]
    bounds = [draw.longs([each]) for each in (before, end)]
    return draw.node("Slice", data, *bounds, draw.constant(np.array([draw.axis_of(axis, len(shape))])))


def by_split(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """One of two equal parts, or of different ones; the other is read by nobody."""
    if not shape:
        return by_elements(draw, shape, dtype)
    axis, rest = draw.rng.randrange(len(shape)), draw.rng.randint(0, 2)
    data = draw.tensor([*shape[:axis], shape[axis] + rest, *shape[axis + 1 :]], dtype)
    sizes = [shape[axis], rest]
    if draw.opset >= 13:
        return draw.nodes("Split", [data, draw.longs(sizes)], 2, {"axis": axis})[0]
    return draw.nodes("Split", [data], 2, {"axis": axis, "split": sizes})[0]


def by_expansion(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    given = [draw.one([1, each]) for each in shape][draw.rng.randint(0, len(shape)) :]
    return (
        draw.node("Expand", draw.tensor(given, dtype), draw.longs(shape))
        if shape
        else by_elements(draw, shape, dtype)
    )


def by_places(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    if not shape:
        return by_elements(draw, shape, dtype)
    axis = draw.rng.randrange(len(shape))
    length = draw.rng.randint(1, 5)
    places = draw.given(draw.numbers.integers(-length, length, shape[axis]).astype("int64"), 0.5)
    data = draw.tensor([*shape[:axis], length, *shape[axis + 1 :]], dtype)
    return draw.node("Gather", data, places, axis=axis)


def by_sum(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    """Over an axis that goes."""
    if dtype not in ("float32", "float64"):
        return by_elements(draw, shape, dtype)
    axis = draw.rng.randint(0, len(shape))
    data = draw.tensor([*shape[:axis], draw.rng.randint(1, 4), *shape[axis:]], dtype)
    if draw.opset >= 13:
        return draw.node("ReduceSum", data, draw.longs([axis]), keepdims=0)
    return draw.node("ReduceSum", data, axes=[axis], keepdims=0)


def by_product(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    if len(shape) < 2 or dtype != "float32":
        return by_elements(draw, shape, dtype)
    depth = draw.rng.randint(1, 4)
    right = (depth, shape[-1]) if draw.maybe() else (*shape[:-2], depth, shape[-1])
    return draw.node("MatMul", draw.tensor((*shape[:-1], depth), dtype), draw.tensor(right, dtype))


def by_shares(draw: NodeDraw, shape: Sequence[int], dtype: str) -> str:
    if not shape or dtype not in FLOATS:
        return by_elements(draw, shape, dtype)
    return draw.node("Softmax", draw.tensor(shape, dtype), axis=draw.axis_of(len(shape) - 1, len(shape)))


JOINS: tuple[Join, ...] = (
    by_elements,
    by_pairs,
    by_condition,
    by_type,
    by_order,
    by_shape,
    by_axes,
    by_parts,
    by_cut,
    by_split,
    by_expansion,
    by_places,
    by_sum,
    by_product,
    by_shares,
)
