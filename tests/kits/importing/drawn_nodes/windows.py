"""Operators that see windows of images: convolutions, pools, resizing, sampling."""

from __future__ import annotations

import numpy as np

from kits.importing.drawn_nodes.draw import NodeDraw, by_name

__all__ = ["FAMILIES"]

AUTOMATIC = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def convolution(draw: NodeDraw) -> None:
    rank = draw.rng.randint(1, 3)
    kernel, window = _window(draw, rank)
    groups, deep, wide = draw.one([1, 1, 2, 3]), draw.rng.randint(1, 2), draw.rng.randint(1, 2)
    data = draw.tensor((draw.rng.randint(1, 2), groups * deep, *_image(draw, rank)))
    weight = draw.given(draw.array((groups * wide, deep, *kernel)))
    bias = [draw.given(draw.array((groups * wide,)))] if draw.maybe() else []
    attributes = {"group": groups} if groups > 1 or draw.maybe(0.3) else {}
    draw.node("Conv", data, weight, *bias, **window, **attributes)


def deconvolution(draw: NodeDraw) -> None:
    rank = draw.rng.randint(1, 2)
    kernel, window = _window(draw, rank)
    groups, deep, wide = draw.one([1, 1, 2]), draw.rng.randint(1, 2), draw.rng.randint(1, 2)
    data = draw.tensor((draw.rng.randint(1, 2), groups * deep, *_image(draw, rank)))
    weight = draw.given(draw.array((groups * deep, wide, *kernel)))
    bias = [draw.given(draw.array((groups * wide,)))] if draw.maybe() else []
    strides = window.get("strides", [1] * rank)
    assert isinstance(strides, list)
    if draw.maybe(0.3):
        window["output_padding"] = [draw.rng.randint(0, each - 1) for each in strides]
    draw.node("ConvTranspose", data, weight, *bias, **window, **({"group": groups} if groups > 1 else {}))


def pool(draw: NodeDraw) -> None:
    rank = draw.rng.randint(1, 3)
    kind = draw.one(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    _, window = _window(draw, rank)
    if kind == "LpPool" and draw.opset < 18:
        window.pop("dilations", None)
    if kind == "AveragePool" and draw.opset < 19:
        window.pop("dilations", None)
    if kind == "MaxPool" and draw.opset < 10:
        window.pop("dilations", None)
    is_rounded = draw.opset >= (18 if kind == "LpPool" else 10)
    if is_rounded and "auto_pad" not in window and draw.maybe(0.4):
        window["ceil_mode"] = draw.rng.randint(0, 1)
    if kind == "AveragePool":
        window |= draw.some(count_include_pad=[0, 1])
    if kind == "LpPool":
        window |= draw.some(p=[1, 2, 3])
    dtype = (
        draw.one(["float32", "float32", "int8", "uint8"])
        if kind == "MaxPool" and draw.opset >= 12
        else "float32"
    )
    draw.node(kind, draw.tensor((1, draw.rng.randint(1, 3), *_image(draw, rank)), dtype), **window)


def whole_pool(draw: NodeDraw) -> None:
    rank, kind = draw.rng.randint(1, 3), draw.one(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    attributes = draw.some(p=[1, 2, 3]) if kind == "GlobalLpPool" else {}
    draw.node(
        kind, draw.tensor((draw.rng.randint(1, 2), draw.rng.randint(1, 3), *_image(draw, rank))), **attributes
    )


def resize(draw: NodeDraw) -> None:
    """Images of two axes, by scales or to sizes."""
    mode = draw.one(["nearest", "linear", "cubic"])
    shape = (draw.rng.randint(1, 2), draw.rng.randint(1, 3), *_image(draw, 2))
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    if draw.opset >= 19 and mode != "nearest":
        places.append("half_pixel_symmetric")
    attributes: dict[str, object] = {"mode": mode, **draw.some(coordinate_transformation_mode=places)}
    if mode == "nearest":
        attributes |= draw.some(nearest_mode=["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes |= draw.some(cubic_coeff_a=[-0.5, -0.75], exclude_outside=[0, 1])
    if draw.opset >= 18 and draw.maybe(0.2):
        attributes["antialias"] = int(mode != "nearest")
    data, region = draw.tensor(shape), "" if draw.opset >= 11 else None
    if draw.maybe():
        scales = [1.0, 1.0, draw.one([0.5, 2.0, 1.5, 0.7]), draw.one([0.5, 2.0, 3.0, 1.3])]
        draw.node("Resize", data, region or "", draw.given(np.array(scales, "float32")), **attributes)
    else:
        sizes = [*shape[:2], draw.rng.randint(1, 9), draw.rng.randint(1, 9)]
        draw.node("Resize", data, region or "", "", draw.longs(sizes), **attributes)


def grid(draw: NodeDraw) -> None:
    shape = (draw.rng.randint(1, 2), draw.rng.randint(1, 3), *_image(draw, 2))
    places = draw.numbers.uniform(-1.5, 1.5, (shape[0], draw.rng.randint(1, 4), draw.rng.randint(1, 4), 2))
    modes = ["linear", "nearest", "cubic"] if draw.opset >= 20 else ["bilinear", "nearest", "bicubic"]
    attributes = draw.some(mode=modes, padding_mode=["zeros", "border", "reflection"], align_corners=[0, 1])
    draw.node("GridSample", draw.tensor(shape), draw.input(places.astype("float32")), **attributes)


def local_norm(draw: NodeDraw) -> None:
    data = draw.tensor((draw.rng.randint(1, 2), draw.rng.randint(1, 7), *_image(draw, 2)))
    attributes = draw.some(alpha=[1e-4, 0.5], beta=[0.75, 1.5, 0.5], bias=[1.0, 2.0])
    draw.node("LRN", data, size=draw.one([1, 3, 5]), **attributes)


def columns(draw: NodeDraw) -> None:
    """Blocks that are put back into an image."""
    image, block = [draw.rng.randint(3, 6) for _ in range(2)], [draw.rng.randint(1, 3) for _ in range(2)]
    strides, dilations, pads = ([draw.rng.randint(1, 2) for _ in range(2)] for _ in range(3))
    if draw.maybe():
        pads = [0, 0]
    spans = [dilations[axis] * (block[axis] - 1) + 1 for axis in range(2)]
    counts = [max((image[a] + 2 * pads[a] - spans[a]) // strides[a] + 1, 1) for a in range(2)]
    data = draw.tensor(
        (draw.rng.randint(1, 2), draw.rng.randint(1, 2) * block[0] * block[1], counts[0] * counts[1])
    )
    operands = (draw.longs(image, 1.0), draw.longs(block, 1.0))
    draw.node("Col2Im", data, *operands, strides=strides, dilations=dilations, pads=[*pads, *pads])


def _image(draw: NodeDraw, rank: int) -> tuple[int, ...]:
    return tuple(draw.rng.randint(3, 7) for _ in range(rank))


def _window(draw: NodeDraw, rank: int) -> tuple[list[int], dict[str, object]]:
    """A kernel that fits into an image, and its attributes."""
    kernel = [draw.rng.randint(1, 3) for _ in range(rank)]
    window: dict[str, object] = {"kernel_shape": kernel}
    window |= draw.some(strides=[[draw.rng.randint(1, 3) for _ in range(rank)]])
    if draw.maybe(0.3):
        window["dilations"] = [draw.rng.randint(1, 2) if each < 3 else 1 for each in kernel]
    if draw.maybe(0.3):
        window["auto_pad"] = draw.one(AUTOMATIC[1:])
        window.pop("dilations", None)
    elif draw.maybe(0.6):
        window["pads"] = [draw.rng.randint(0, each - 1) for each in (*kernel, *kernel)]
    return kernel, window


FAMILIES = by_name(
    convolution,
    deconvolution,
    pool,
    whole_pool,
    resize,
    grid,
    local_norm,
    columns,
)
