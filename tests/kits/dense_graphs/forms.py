"""Idioms of forms that passes of dnnl look for, and that chance alone would seldom make."""

from __future__ import annotations

from kits.dense_graphs.attentions import of_one_value
from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.quantization import round_trip
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import reshaped, viewed
from kits.dense_graphs.windows import known, quantized_convolution

__all__ = ["FORMS"]

FEWEST_CHANNELS = 16


def gated(bench: Bench) -> int:
    """A value times a sigmoid of a multiple, a clip of a linear function, or a hyperbolic tangent of it."""
    x = viewed(bench, bench.value())
    return bench.one_of((_quick_gelu, _hardswish, _mish))(bench, x)


def _product(bench: Bench, x: int, gate: int) -> int:
    return bench.binary("multiply", *((x, gate) if bench.chance(0.6) else (gate, x)))


def _scaled(bench: Bench, x: int, factor: float) -> int:
    if bench.chance(0.3):
        return bench.binary("divide", x, bench.scalar(1 / factor))
    return bench.binary("multiply", x, bench.scalar(factor))


def _quick_gelu(bench: Bench, x: int) -> int:
    inner = bench.binary("multiply", x, bench.scalar(bench.one_of((1.702, 0.5, -1.0))))
    return _product(bench, x, bench.unary("sigmoid", inner))


def _hardswish(bench: Bench, x: int) -> int:
    """The factor before the product, behind it, or another one, with which it is no hardswish."""
    inner = _scaled(bench, x, bench.one_of((0.5, 2.0))) if bench.chance(0.3) else x
    line = bench.binary("add", inner, bench.scalar(bench.one_of((3.0, 3.0, 1.0))))
    top = bench.one_of((6.0, 6.0, 1.0))
    gate = bench.add("clip", (line,), {"min": 0.0, "max": top}, bench.shape_of(line))
    factor = bench.one_of((1 / top, 1 / top, 0.5))
    if bench.chance(0.5):
        return _product(bench, x, _scaled(bench, gate, factor))
    return _scaled(bench, _product(bench, x, gate), factor)


def _mish(bench: Bench, x: int) -> int:
    """With the logarithm that cannot overflow, or with the other one, of numbers that are small."""
    one = bench.scalar(1.0)
    if bench.chance(0.5):
        x = bench.unary("tanh", x)
        softplus = bench.unary("log", bench.binary("add", bench.unary("exp", x), one))
    else:
        size = bench.unary("negative", bench.unary("abs", x))
        rest = bench.unary("log", bench.binary("add", bench.unary("exp", size), one))
        softplus = bench.binary("add", bench.unary("nn.relu", x), rest)
    return _product(bench, x, bench.unary("tanh", softplus))


def local_response(bench: Bench) -> int | None:
    """An image over a power of the mean square of neighbouring channels, as ONNX's LRN is imported."""
    x = viewed(bench, bench.value(4), 0.2)
    shape = bench.shape_of(x)
    if len(shape) != 4:
        return None
    batch, *rest = shape
    square = bench.binary("multiply", x, x)
    size = bench.one_of((1, 3, 5))
    inner = (batch, 1, *rest)
    # The importer inserts an axis; a reshape to the same extents means the same.
    if size == 3:
        square = bench.add("expand_dims", (square,), {"axis": [1]}, inner)
    else:
        square = reshaped(bench, square, inner)
    attrs = {
        "pool_size": [size, 1, 1],
        "strides": [1, 1, 1],
        "padding": [size // 2, 0, 0, size // 2, 0, 0],
        "count_include_pad": True,
    }
    mean = bench.add("nn.avg_pool3d", (square,), attrs, inner)
    mean = bench.add("squeeze", (mean,), {"axis": [1]}, shape) if size == 3 else reshaped(bench, mean, shape)
    scaled = bench.binary("multiply", mean, bench.scalar(bench.one_of((0.5, 2.0))))
    sums = bench.binary("add", scaled, bench.scalar(bench.one_of((1.0, 2.0))))
    divisor = bench.binary("power", sums, bench.scalar(bench.one_of((0.75, 0.5, 1.0))))
    return bench.binary("divide", x, divisor)


def quantized_sum(bench: Bench) -> int | None:
    """A product of bytes and what other bytes stand for, rounded again."""
    product = quantized_convolution(bench)
    if product is None:
        return None
    shape = bench.shape_of(product)
    pair = [product, round_trip(bench, bench.source(shape, constant=0.0))]
    if bench.chance(0.3):
        pair.reverse()
    total = bench.binary("add", pair[0], pair[1])
    total = bench.unary("nn.relu", total) if bench.chance(0.5) else total
    return round_trip(bench, total) if bench.chance(0.7) else total


def quantized_parts(bench: Bench) -> int | None:
    """A join, or maxima of windows, rounded to bytes; of what was rounded before, now and then."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if len(shape) == 4 and len(known(shape)) == 4 and bench.chance(0.5):
        size = [bench.number(1, min(2, extent)) for extent in known(shape[2:])]
        out = [extent - part + 1 for extent, part in zip(known(shape[2:]), size, strict=True)]
        attrs = {"pool_size": size, "strides": [1, 1], "padding": [0, 0, 0, 0]}
        return round_trip(bench, bench.add("nn.max_pool2d", (value,), attrs, (*shape[:2], *out)))
    axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)]
    if not axes or volume(shape) * 2 > LARGEST:
        return None
    axis = bench.one_of(axes)
    other = bench.source(shape, constant=0.0)
    members = [round_trip(bench, each) if bench.chance(0.6) else each for each in (value, other)]
    extent = shape[axis]
    assert isinstance(extent, int)
    whole = (*shape[:axis], 2 * extent, *shape[axis + 1 :])
    return round_trip(bench, bench.add("concat", members, {"axis": axis}, whole))


def requantized(bench: Bench) -> int:
    """Bytes, or floats, times a vector of the channels, with another one added, rounded to bytes."""
    shape = (bench.one_of((1, 2)), bench.one_of((8, FEWEST_CHANNELS, 19)), *bench.one_of(((), (3,), (2, 3))))
    data = bench.source(shape, constant=0.0)
    if bench.chance(0.7):
        raw = bench.source(shape, "signed", "int8", constant=0.0)
        data = bench.add("dequantize", (raw,), {**_one_scale(bench), "out_dtype": "float32"}, shape)
    vector = (1, shape[1], *[1] * (len(shape) - 2))
    for name in ("multiply", "add"):
        if bench.chance(0.8):
            pair = [data, bench.source(vector, constant=0.7)]
            pair = pair if bench.chance(0.7) else pair[::-1]
            data = bench.binary(name, pair[0], pair[1])
    attrs = _one_scale(bench)
    whole = bench.add("quantize", (data,), {**attrs, "out_dtype": "int8"}, shape, "int8")
    return bench.add("dequantize", (whole,), {**attrs, "out_dtype": "float32"}, shape)


def _one_scale(bench: Bench) -> dict[str, object]:
    scale, zero = bench.one_of((0.0625, 0.05, 0.1)), bench.one_of((0, 3, -8))
    return {"scale": scale, "zero": zero, "zero_dtype": "int8", "axis": 1}


def whole_convolution(bench: Bench) -> int:
    """Of int32, as bytes without their zero points are; with groups, strides and paddings."""
    spatial = bench.number(1, 3)
    groups, inner, filters = bench.one_of((1, 1, 2)), bench.number(1, 3), bench.number(1, 3)
    extents = [bench.number(3, 6) for _ in range(spatial)]
    size = [bench.number(1, 3) for _ in range(spatial)]
    before, after = ([bench.number(0, part - 1) for part in size] for _ in range(2))
    strides = [bench.one_of((1, 2)) for _ in range(spatial)]
    batch: Dim = bench.symbol if bench.symbol is not None and bench.chance(0.5) else bench.number(1, 2)
    data = bench.source((batch, groups * inner, *extents), "signed", "int32", constant=0.0)
    is_cast = bench.chance(0.8)  # to floats, and halves hold no large numbers
    kind = "whole" if is_cast else "signed" if bench.chance(0.6) else "bits"
    kernel = bench.source((groups * filters, inner, *size), kind, "int32", constant=0.8)
    sides = zip(extents, before, after, size, strides, strict=True)
    out = [(extent + low + high - part) // step + 1 for extent, low, high, part, step in sides]
    attrs = {"strides": strides, "padding": [*before, *after], "groups": groups}
    shape = (batch, groups * filters, *out)
    sums = bench.add(f"nn.conv{spatial}d", (data, kernel), attrs, shape, "int32")
    return bench.add("astype", (sums,), {"dtype": "float32"}, shape) if is_cast else sums


FORMS: tuple[tuple[float, Idiom], ...] = (
    (8.0, gated),
    (4.0, local_response),
    (6.0, quantized_sum),
    (4.0, quantized_parts),
    (5.0, requantized),
    (4.0, whole_convolution),
    (6.0, of_one_value),
)
"""Weights and idioms."""
