"""Operators that move elements, count them or choose among them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import numpy_helper

from kits.importing.drawn_nodes.draw import INTEGERS, NodeDraw, by_name

__all__ = ["FAMILIES"]

TYPES = ("float32", "float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool")
MIRRORING = ("constant", "reflect", "edge", "wrap")


def reshape(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    wanted = _factors(draw, math.prod(shape))
    attributes = draw.some(allowzero=[0, 1]) if draw.opset >= 14 else {}
    for axis in range(min(len(wanted), len(shape))):
        if wanted[axis] == shape[axis] and not attributes.get("allowzero") and draw.maybe(0.3):
            wanted[axis] = 0
    if draw.maybe():
        wanted[draw.rng.randrange(len(wanted))] = -1
    draw.node("Reshape", draw.tensor(shape, draw.one(TYPES)), draw.longs(wanted), **attributes)


def _factors(draw: NodeDraw, size: int) -> list[int]:
    factors = [1] * draw.rng.randint(1, 4)
    for prime in (2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3):
        if size % prime == 0:
            factors[draw.rng.randrange(len(factors))] *= prime
            size //= prime
    factors[-1] *= size
    return factors


def flatten(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = draw.rng.randint(-len(shape), len(shape))
    draw.node("Flatten", draw.tensor(shape, draw.one(TYPES)), **({"axis": axis} if draw.maybe(0.8) else {}))


def transpose(draw: NodeDraw) -> None:
    shape = draw.shape(1, 5)
    order = draw.rng.sample(range(len(shape)), len(shape))
    draw.node(
        "Transpose", draw.tensor(shape, draw.one(TYPES)), **({"perm": order} if draw.maybe(0.8) else {})
    )


def squeeze(draw: NodeDraw) -> None:
    shape = [draw.one([1, 1, 2, 3]) for _ in range(draw.rng.randint(1, 5))]
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    chosen = [
        draw.axis_of(axis, len(shape)) for axis in draw.rng.sample(ones, draw.rng.randint(0, len(ones)))
    ]
    _with_axes(draw, "Squeeze", draw.tensor(shape, draw.one(TYPES)), chosen or None)


def unsqueeze(draw: NodeDraw) -> None:
    shape, count = draw.shape(0, 3), draw.rng.randint(1, 2)
    axes = draw.axes(len(shape) + count, count)
    _with_axes(draw, "Unsqueeze", draw.tensor(shape, draw.one(TYPES)), axes)


def _with_axes(draw: NodeDraw, kind: str, data: str, axes: Sequence[int] | None) -> None:
    """Axes are operands since opset 13, and attributes before."""
    if axes is None:
        draw.node(kind, data)
    elif draw.opset >= 13:
        draw.node(kind, data, draw.longs(axes))
    else:
        draw.node(kind, data, axes=list(axes))


def expand(draw: NodeDraw) -> None:
    whole = draw.shape(1, 4)
    shape = tuple(draw.one([1, each]) for each in whole)[draw.rng.randint(0, len(whole)) :]
    wanted = [draw.one([1, each]) for each in whole][draw.rng.randint(0, len(whole) - 1) :]
    draw.node("Expand", draw.tensor(shape, draw.one(TYPES)), draw.longs(wanted))


def tile(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4, 3)
    draw.node(
        "Tile", draw.tensor(shape, draw.one(TYPES)), draw.longs([draw.rng.randint(0, 3) or 1 for _ in shape])
    )


def concat(draw: NodeDraw) -> None:
    shape, dtype = list(draw.shape(1, 4)), draw.one(TYPES)
    axis = draw.rng.randrange(len(shape))
    shapes = [
        [*shape[:axis], draw.rng.randint(0, 3), *shape[axis + 1 :]] for _ in range(draw.rng.randint(1, 3))
    ]
    draw.node("Concat", *(draw.tensor(each, dtype) for each in shapes), axis=draw.axis_of(axis, len(shape)))


def split(draw: NodeDraw) -> None:
    shape = list(draw.shape(1, 4, 5))
    axis = draw.rng.randrange(len(shape))
    sizes = [draw.rng.randint(0, 3) for _ in range(draw.rng.randint(1, 3))]
    is_even = draw.maybe(0.4)
    if not is_even:
        shape[axis] = sum(sizes)
    elif draw.opset < 18:
        shape[axis] = len(sizes) * max(sizes)
    attributes: dict[str, object] = {"axis": draw.axis_of(axis, len(shape))} if axis or draw.maybe() else {}
    operands = [draw.tensor(shape, draw.one(TYPES))]
    if is_even and draw.opset >= 18:
        attributes["num_outputs"] = len(sizes)
    elif not is_even and draw.opset >= 13:
        operands.append(draw.longs(sizes))
    elif not is_even:
        attributes["split"] = sizes
    made = draw.nodes("Split", operands, len(sizes), attributes)
    draw.results(draw.rng.sample(made, draw.rng.randint(1, len(made))))


def cut(draw: NodeDraw) -> None:
    """Slices with bounds beyond the ends, backwards, with or without axes and steps.

    Only ends in the direction of the step are far away: from others ONNX Runtime does not clamp as ONNX says.
    """
    shape = draw.shape(1, 4, 6)
    axes = draw.axes(len(shape))
    has_steps = draw.opset >= 10 and draw.maybe()
    steps = [draw.one([1, 2, 3, -1, -2]) if has_steps else 1 for _ in axes]
    data, dtype = draw.tensor(shape, draw.one(TYPES)), draw.one(["int64", "int64", "int32"])
    far = {1: 2**31 - 1 if dtype == "int32" else draw.one([2**31, 2**63 - 1]), -1: -(2**31)}
    begins = [draw.rng.randint(-8, 8) for _ in axes]
    ends = [far[1 if step > 0 else -1] if draw.maybe(0.3) else draw.rng.randint(-8, 8) for step in steps]
    if draw.opset < 10:
        draw.node("Slice", data, starts=begins, ends=ends, axes=axes)
        return
    chance = draw.one([0.0, 1.0, 1.0])
    operands = [draw.given(np.array(each, dtype), chance) for each in (begins, ends)]
    are_named = len(axes) < len(shape) or has_steps or draw.maybe()
    operands.append(draw.given(np.array(axes, dtype), 1.0 if chance else 0.8) if are_named else "")
    if has_steps:
        operands.append(draw.given(np.array(steps, dtype), 1.0 if chance else 0.8))
    draw.node("Slice", data, *operands)


def gather(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = draw.rng.randrange(len(shape))
    places = draw.numbers.integers(-shape[axis], shape[axis], draw.shape(0, 2)).astype(
        draw.one(["int64", "int32"])
    )
    data = draw.tensor(shape, draw.one(TYPES))
    draw.node("Gather", data, draw.given(np.asarray(places), 0.4), axis=draw.axis_of(axis, len(shape)))


def gather_elements(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = draw.rng.randrange(len(shape))
    count = [draw.rng.randint(1, each) for each in shape]
    count[axis] = draw.rng.randint(1, 4)
    places = draw.numbers.integers(-shape[axis], shape[axis], count).astype(draw.one(["int64", "int32"]))
    data = draw.tensor(shape, draw.one(TYPES))
    draw.node("GatherElements", data, draw.given(places, 0.4), axis=draw.axis_of(axis, len(shape)))


def gather_nd(draw: NodeDraw) -> None:
    batch = draw.rng.randint(0, 2)
    shape = draw.shape(batch + 1, 4)
    depth = draw.rng.randint(1, len(shape) - batch)
    lead = (*shape[:batch], *draw.shape(0, 2, 3))
    places = np.stack(
        [draw.numbers.integers(-each, each, lead) for each in shape[batch : batch + depth]], axis=-1
    )
    data = draw.tensor(shape, draw.one(TYPES))
    draw.node(
        "GatherND", data, draw.given(places.astype("int64"), 0.4), **({"batch_dims": batch} if batch else {})
    )


def scatter_elements(draw: NodeDraw) -> None:
    shape = draw.shape(1, 3)
    axis = draw.rng.randrange(len(shape))
    count = [draw.rng.randint(1, each) for each in shape]
    reduction = draw.one(["none", "add", "mul", "max", "min"]) if draw.opset >= 18 else "none"
    lines = np.argsort(draw.numbers.random([*count[:axis], shape[axis], *count[axis + 1 :]]), axis)
    places = np.take(lines, range(count[axis]), axis)
    if reduction != "none" and draw.maybe():
        places = draw.numbers.integers(0, shape[axis], count)
    places = np.where(draw.array(count, "bool"), places, places - shape[axis])
    dtype = draw.one(["float32", "float32", "int64", "int32"])
    operands = (draw.tensor(shape, dtype), draw.given(places.astype("int64"), 0.4), draw.tensor(count, dtype))
    attributes = {"reduction": reduction} if draw.opset >= 16 else {}
    draw.node("ScatterElements", *operands, axis=draw.axis_of(axis, len(shape)), **attributes)


def scatter_nd(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    depth = draw.rng.randint(1, len(shape))
    count = draw.rng.randint(1, min(4, math.prod(shape[:depth])))
    flat = draw.numbers.choice(math.prod(shape[:depth]), count, replace=False)
    places = np.stack(np.unravel_index(flat, shape[:depth]), axis=-1)
    places = np.where(draw.array(places.shape, "bool"), places, places - np.array(shape[:depth]))
    reduction = draw.one(["none", "add", "mul", "max", "min"]) if draw.opset >= 18 else "none"
    dtype = draw.one(["float32", "float32", "int64", "int32"])
    updates = draw.tensor((count, *shape[depth:]), dtype)
    attributes = {"reduction": reduction} if draw.opset >= 16 else {}
    draw.node(
        "ScatterND", draw.tensor(shape, dtype), draw.given(places.astype("int64"), 0.4), updates, **attributes
    )


def pad(draw: NodeDraw) -> None:
    shape, dtype = (
        draw.shape(1, 4, 5),
        draw.one(["float32", "float32", "float64", "int64", "int32", "bool", "uint8"]),
    )
    modes = MIRRORING if draw.opset >= 19 else MIRRORING[:3]
    mode = draw.one(["constant", draw.one(modes)]) if dtype != "bool" else "constant"
    axes = draw.axes(len(shape)) if draw.opset >= 18 and draw.maybe() else list(range(len(shape)))
    most = [
        (shape[axis] - 1 if mode == "reflect" else shape[axis]) if mode != "constant" else 3 for axis in axes
    ]
    least = [-1 if mode == "constant" and shape[axis] > 2 else 0 for axis in axes]
    widths = [
        [draw.rng.randint(low, max(high, 0)) for low, high in zip(least, most, strict=True)] for _ in range(2)
    ]
    attributes: dict[str, object] = {"mode": mode} if mode != "constant" or draw.maybe() else {}
    if draw.opset < 11:
        value = {"value": draw.one([0.0, 1.5])} if mode == "constant" else {}
        draw.node("Pad", draw.tensor(shape), pads=[*widths[0], *widths[1]], **attributes, **value)
        return
    operands = [draw.tensor(shape, dtype), draw.longs([*widths[0], *widths[1]])]
    has_value = mode == "constant" and draw.maybe()
    operands.append(draw.given(np.array(1, dtype)) if has_value else "")
    if len(axes) < len(shape) or axes != list(range(len(shape))):
        operands.append(draw.longs(axes))
    draw.node("Pad", *operands, **attributes)


def pixels(draw: NodeDraw) -> None:
    block, batch, high, wide = draw.rng.randint(1, 3), *draw.shape(3, 3, 3)
    dtype = draw.one(["float32", "float32", "float64"])
    if draw.maybe():
        attributes = {"blocksize": block, **(draw.some(mode=["DCR", "CRD"]) if draw.opset >= 11 else {})}
        data = draw.tensor((batch, block * block * draw.rng.randint(1, 3), high, wide), dtype)
        draw.node("DepthToSpace", data, **attributes)
    else:
        data = draw.tensor((batch, draw.rng.randint(1, 3), block * high, block * wide), dtype)
        draw.node("SpaceToDepth", data, blocksize=block)


def one_hot(draw: NodeDraw) -> None:
    shape, depth = draw.shape(0, 3), draw.rng.randint(1, 4)
    places = draw.numbers.integers(-depth - 1, depth + 2, shape)
    numbers = draw.given(
        np.array([draw.one([0, 0, -2]), draw.one([1, 5])], draw.one(["float32", "int64", "int32"]))
    )
    axis = draw.rng.randint(-len(shape) - 1, len(shape))
    count = draw.given(np.array(draw.one([depth, [depth]]), "int64"))
    draw.node(
        "OneHot", draw.input(np.asarray(places, draw.one(["int64", "int32"]))), count, numbers, axis=axis
    )


def largest(draw: NodeDraw) -> None:
    """The largest and smallest: numbers differ, so that their order is known."""
    shape = draw.shape(1, 4)
    axis = draw.rng.randrange(len(shape))
    numbers = (
        draw.numbers.permutation(math.prod(shape))
        .reshape(shape)
        .astype(draw.one(["float32", "int64", "float64"]))
    )
    count = draw.longs([draw.rng.randint(1, shape[axis])])
    attributes = draw.some(largest=[0, 1], axis=[draw.axis_of(axis, len(shape))])
    if "axis" not in attributes:
        attributes = {**attributes, "axis": draw.axis_of(axis, len(shape))}
    draw.results(draw.nodes("TopK", [draw.input(numbers), count], 2, attributes))


def place_of_largest(draw: NodeDraw) -> None:
    shape, dtype = draw.shape(1, 4), draw.one(["float32", "float32", "int32", "int8", "uint8"])
    choices = {"axis": [draw.axis_of(draw.rng.randrange(len(shape)), len(shape))], "keepdims": [0, 1]}
    if draw.opset >= 12:
        choices["select_last_index"] = [0, 1]
    numbers = np.asarray(draw.numbers.integers(0, 3, shape), dtype)
    draw.node(draw.one(["ArgMax", "ArgMin"]), draw.input(numbers), **draw.some(**choices))


def running_sum(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = np.array(draw.axis_of(draw.rng.randrange(len(shape)), len(shape)), draw.one(["int64", "int32"]))
    data = draw.tensor(shape, draw.one(["float32", "float32", "int64", "int32", "float64"]))
    draw.node("CumSum", data, draw.given(axis), **draw.some(exclusive=[0, 1], reverse=[0, 1]))


def triangle(draw: NodeDraw) -> None:
    shape = draw.shape(2, 4)
    operands = [draw.tensor(shape, draw.one(["float32", "int64", "bool", "float64"]))]
    if draw.maybe(0.7):
        operands.append(draw.given(np.array(draw.rng.randint(-4, 4), "int64")))
    draw.node("Trilu", *operands, **draw.some(upper=[0, 1]))


def reverse(draw: NodeDraw) -> None:
    shape = draw.shape(2, 4)
    time = draw.rng.randint(0, 1)
    lengths = draw.numbers.integers(1, shape[time] + 1, shape[1 - time]).astype("int64")
    data = draw.tensor(shape, draw.one(["float32", "int64", "float64"]))
    draw.node("ReverseSequence", data, draw.given(lengths, 0.4), time_axis=time, batch_axis=1 - time)


def made_of_numbers(draw: NodeDraw) -> None:
    """Tensors that no data is read for: ranges, identities, filled ones."""
    match draw.rng.randrange(3):
        case 0:
            dtype, step = draw.one(["int64", "int32", "float32"]), draw.one([1, 2, -1, -3])
            begin = draw.rng.randint(-5, 5)
            end = begin + step * draw.rng.randint(0, 5) + draw.one([0, 1])
            draw.node("Range", *(draw.given(np.array(each, dtype), 0.8) for each in (begin, end, step)))
        case 1:
            data = draw.tensor(draw.shape(2, 2, 5))
            draw.node("EyeLike", data, **draw.some(k=[-2, -1, 0, 1, 2], dtype=[1, 6, 7, 11]))
        case _:
            value = np.array([draw.one([0, 3])], draw.one(["float32", "int64", "bool"]))
            choices = draw.some(value=[numpy_helper.from_array(value)])
            draw.node("ConstantOfShape", draw.longs(draw.shape(0, 3)), **choices)


def extents(draw: NodeDraw) -> None:
    data = draw.input(draw.array(draw.shape(0, 4)))
    if draw.maybe(0.2):
        draw.node("Size", data)
    else:
        draw.node(
            "Shape",
            data,
            **(draw.some(start=[-3, -1, 0, 1, 9], end=[-9, -1, 1, 2, 9]) if draw.opset >= 15 else {}),
        )


def bytes_moved(draw: NodeDraw) -> None:
    """Moves of integers that few engines have, through a chain of two."""
    shape, dtype = draw.shape(2, 4), draw.one(INTEGERS)
    moved = draw.node("Transpose", draw.tensor(shape, dtype), perm=list(reversed(range(len(shape)))))
    draw.node("Concat", moved, moved, axis=draw.axis_of(draw.rng.randrange(len(shape)), len(shape)))


FAMILIES = by_name(
    reshape,
    flatten,
    transpose,
    squeeze,
    unsqueeze,
    expand,
    tile,
    concat,
    split,
    cut,
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
    pad,
    pixels,
    one_hot,
    largest,
    place_of_largest,
    running_sum,
    triangle,
    reverse,
    made_of_numbers,
    extents,
    bytes_moved,
)
