"""Idioms of floats at their edges: bounds that cross, infinities, signs of zero, windows that reach out."""

from __future__ import annotations

from typing import Any

from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom, narrowed
from kits.dense_graphs.quantization import parameters
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed
from kits.dense_graphs.windows import known

__all__ = ["EDGES", "hidden_from"]

INFINITE = float("inf")
BOUNDS = (
    (2.0, 1.0), (0.5, -0.5), (6.0, 0.0), (0.5, 0.5), (0.0, 0.0),
    (-INFINITE, 0.5), (-0.5, INFINITE), (0.0, INFINITE), (-INFINITE, INFINITE),
)  # fmt: skip
KEEPING = (
    "nn.relu", "abs", "negative", "sign", "exp", "sigmoid", "tanh", "erf", "square", "floor", "round", "ceil",
)  # fmt: skip
COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal")
DIVISORS = (-3.0, -0.7, -0.1, 0.1, 0.3, 2.0)
HIGH_RANK = 6
CHANNELS_FIRST = 2


def clipped(bench: Bench) -> int:
    """By bounds that cross, meet or are infinite, or as a maximum of a minimum; once or twice."""
    value = viewed(bench, bench.value())
    for _ in range(bench.number(1, 2)):
        way = bench.rng.random()
        if way < 0.6:
            value = clipped_by(bench, value)
        elif way < 0.75:
            value = bench.unary("nn.relu", value)
        else:
            names = bench.one_of((("minimum", "maximum"), ("maximum", "minimum")))
            for name, bound in zip(names, bench.one_of(((1.0, 2.0), (2.0, 1.0), (0.5, 0.5))), strict=True):
                value = bench.binary(name, value, bench.scalar(bound))
    return value


def clipped_by(bench: Bench, value: int) -> int:
    """By any bounds."""
    low, high = bench.one_of(BOUNDS)
    return bench.add("clip", (value,), {"min": low, "max": high}, bench.shape_of(value))


def scaled_backwards(bench: Bench) -> int | None:
    """Quantized by scales below zero, or by infinite ones; often what is in front cuts off one side."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if not shape:
        return None
    if bench.chance(0.6):
        value = bench.unary("nn.relu", value) if bench.chance(0.5) else clipped_by(bench, value)
    dtype = bench.one_of(("int8", "uint8"))
    attrs = parameters(bench, shape, dtype, bench.number(0, len(shape) - 1))
    is_infinite = bench.chance(0.15)
    attrs["scale"] = _changed(attrs["scale"], INFINITE if is_infinite else -1.0)
    whole = bench.add("quantize", (value,), {**attrs, "out_dtype": dtype}, shape, dtype)
    if is_infinite or bench.chance(0.2):
        return bench.add("astype", (whole,), {"dtype": "float32"}, shape)
    result = bench.add("dequantize", (whole,), {**attrs, "out_dtype": "float32"}, shape)
    return bench.unary("nn.relu", result) if bench.chance(0.3) else result


def _changed(scale: object, factor: float) -> object:
    """A scale times a factor; of several scales the first."""
    if isinstance(scale, list):
        return [scale[0] * factor, *scale[1:]]
    assert isinstance(scale, float)
    return scale * factor


def hidden_from(bench: Bench, begin: int, result: int) -> int:
    """A result whose parts no other idiom may read, as they are infinite or out of range."""
    bench.special.update(range(begin, result))
    return result


def infinite(bench: Bench) -> int:
    """Functions, extremes, choices, orders of numbers some of which are infinite, then finite again."""
    begin = len(bench.nodes)
    value = bench.source(bench.shape(bench.number(1, 4)), "infinite", constant=0.0)
    value = viewed(bench, value)
    for _ in range(bench.number(1, 2)):
        value = bench.one_of((_function, _extreme, _pairwise, _chosen, _sorted))(bench, value)
    return hidden_from(bench, begin, _settled(bench, value))


def _function(bench: Bench, value: int) -> int:
    if bench.chance(0.25):
        return clipped_by(bench, value)
    return bench.unary(bench.one_of(KEEPING), value)


def _extreme(bench: Bench, value: int) -> int:
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    kept = [1 if index == axis else extent for index, extent in enumerate(shape)]
    return bench.add(bench.one_of(("max", "min")), (value,), {"axis": [axis], "keepdims": True}, kept)


def _pairwise(bench: Bench, value: int) -> int:
    other = bench.source(bench.shape_of(value), bench.one_of(("infinite", "normal")), constant=0.0)
    return bench.binary(bench.one_of(("maximum", "minimum")), value, other)


def _chosen(bench: Bench, value: int) -> int:
    shape = bench.shape_of(value)
    other = bench.source(shape, bench.one_of(("infinite", "normal")), constant=0.0)
    truth = bench.binary(bench.one_of(COMPARISONS), value, other, "bool")
    pair = (value, other) if bench.chance(0.5) else (other, value)
    return bench.add("where", (truth, *pair), {}, shape)


def _sorted(bench: Bench, value: int) -> int:
    axis = bench.number(0, len(bench.shape_of(value)) - 1)
    return bench.unary("sort", value, axis=axis, descending=bench.chance(0.5))


def _settled(bench: Bench, value: int) -> int:
    """Of values some of which are infinite, finite ones."""
    shape = bench.shape_of(value)
    way = bench.rng.random()
    if way < 0.4:
        return bench.add("clip", (value,), {"min": -4.0, "max": 4.0}, shape)
    if way < 0.6:
        truth = bench.unary_of(bench.one_of(("isinf", "isfinite")), value, "bool")
        return bench.add("astype", (truth,), {"dtype": "float32"}, shape)
    truth = bench.unary_of("isfinite", value, "bool")
    return bench.add("where", (truth, value, bench.scalar(0.5)), {}, shape)


def undefined(bench: Bench) -> int:
    """NaN among numbers, moved, computed with, and replaced."""
    begin = len(bench.nodes)
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), "undefined", constant=0.0))
    for _ in range(bench.number(0, 2)):
        other = bench.source(bench.shape_of(value), "whole", constant=0.0)
        value = viewed(bench, bench.binary(bench.one_of(("add", "subtract", "multiply")), value, other), 0.3)
    shape = bench.shape_of(value)
    truth = bench.unary_of("isnan", value, "bool")
    if bench.chance(0.3):
        return hidden_from(bench, begin, bench.add("astype", (truth,), {"dtype": "float32"}, shape))
    return hidden_from(bench, begin, bench.add("where", (truth, bench.scalar(0.5), value), {}, shape))


def sunk(bench: Bench) -> int:
    """A softmax of rows in which some numbers are minus infinity."""
    begin = len(bench.nodes)
    value = bench.source(bench.shape(bench.number(1, 4)), "sunk", constant=0.0)
    if bench.chance(0.3):
        value = bench.binary("multiply", value, bench.scalar(0.5))
    return hidden_from(bench, begin, bench.unary("nn.softmax", value, axis=-1))


def of_signed_zero(bench: Bench) -> int:
    """The inverse of zeros of both signs, as roundings and products leave them.

    ONNX Runtime's ``Where`` is not among them: it gives 0 for a -0 of its second operand.
    """
    begin = len(bench.nodes)
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), "zeros", constant=0.0))
    for _ in range(bench.number(1, 2)):
        if bench.chance(0.4):
            value = bench.binary("multiply", value, bench.scalar(bench.one_of((-1.0, -2.0, 2.0))))
        else:
            value = bench.unary(bench.one_of(("round", "ceil", "floor", "trunc", "negative", "abs")), value)
    inverse = bench.binary("divide", bench.scalar(1.0), value)
    result = bench.add("clip", (inverse,), {"min": -8.0, "max": 8.0}, bench.shape_of(inverse))
    return hidden_from(bench, begin, result)


def divided_down(bench: Bench) -> int:
    """Quotients that are rounded down, and what remains, of tenths and their like, of both signs."""
    given = bench.source(bench.shape(bench.number(1, 4)), "tenths", constant=0.0)
    value = viewed(bench, given if bench.chance(0.6) else bench.value())
    name = bench.one_of(("floor_divide", "floor_mod", "mod"))
    if bench.chance(0.5):
        return bench.binary(name, value, bench.scalar(bench.one_of(DIVISORS)))
    divisor = bench.source(narrowed(bench, bench.shape_of(value)), "positive", constant=0.3)
    if bench.chance(0.4):
        divisor = bench.unary("negative", divisor)
    return bench.binary(name, value, divisor)


def pooled_at_edges(bench: Bench) -> int | None:
    """Windows that reach far into the padding, with minus infinity, dilated, rounded up; symbolic extents."""
    begin = len(bench.nodes)
    spatial = bench.number(1, 3)
    shape = bench.shape(spatial + CHANNELS_FIRST)
    kind = bench.one_of(("max", "max", "avg"))
    value = bench.source(shape, "sunk" if kind == "max" and bench.chance(0.5) else "normal", constant=0.0)
    if any(isinstance(extent, str) for extent in shape[CHANNELS_FIRST:]):
        attrs, out = _same_windows(bench, shape)
    else:
        attrs, out = _wide_windows(bench, known(shape[CHANNELS_FIRST:]), kind)
        if not out:
            return None
    if kind == "avg":
        attrs["count_include_pad"] = not attrs.get("ceil_mode") and bench.chance(0.5)
    result = bench.add(f"nn.{kind}_pool{spatial}d", (value,), attrs, (*shape[:CHANNELS_FIRST], *out))
    return hidden_from(bench, begin, _settled(bench, result))


def _same_windows(bench: Bench, shape: tuple[Dim, ...]) -> tuple[dict[str, Any], tuple[Dim, ...]]:
    """As many windows as there are elements, however many that are."""
    pairs = [bench.one_of(((1, 0, 0), (2, 1, 0), (2, 0, 1), (3, 1, 1), (3, 2, 0))) for _ in shape[2:]]
    sizes, before, after = zip(*pairs, strict=True)
    attrs = {"pool_size": list(sizes), "strides": [1] * len(sizes), "padding": [*before, *after]}
    return attrs, shape[CHANNELS_FIRST:]


def _wide_windows(bench: Bench, extents: list[int], kind: str) -> tuple[dict[str, Any], tuple[Dim, ...]]:
    size = [bench.number(1, 4) for _ in extents]
    step = [bench.one_of((1, 2)) if kind == "max" else 1 for _ in extents]
    reach = [(count - 1) * gap + 1 for count, gap in zip(size, step, strict=True)]
    before, after = ([bench.number(0, part - 1) for part in reach] for _ in range(2))
    strides = [bench.number(1, 3) for _ in extents]
    ceil = bench.chance(0.5)
    attrs: dict[str, Any] = {"pool_size": size, "strides": strides, "padding": [*before, *after]}
    attrs |= {"ceil_mode": ceil, "dilation": step}
    sides = zip(extents, before, after, reach, strides, strict=True)
    out = [(e + low + high - part + (s - 1 if ceil else 0)) // s + 1 for e, low, high, part, s in sides]
    places = zip(out, strides, extents, before, strict=True)
    is_beyond = any((count - 1) * s >= e + low for count, s, e, low in places)
    return attrs, () if is_beyond or min(out) < 1 else tuple(out)


def sliced_back(bench: Bench) -> int | None:
    """From behind to the front, in steps of one or two."""
    value = viewed(bench, bench.value())
    shape = list(bench.shape_of(value))
    axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)]
    if not axes:
        return None
    axis = bench.one_of(axes)
    (extent,) = known([shape[axis]])
    begin = bench.number(0, extent - 1)
    end = bench.number(-1, begin - 1)
    step = bench.one_of((-1, -1, -2))
    shape[axis] = len(range(begin, end, step))
    place = end if end >= 0 else -(extent + 1)
    attrs = {"axes": [axis], "begin": [begin], "end": [place], "strides": [step]}
    return bench.add("strided_slice", (value,), attrs, shape, bench.nodes[value].dtype)


def of_odd_shape(bench: Bench) -> int:
    """A number without axes beside a value of the graph, a tensor of extents of one, or one of six axes."""
    way = bench.number(0, 2)
    if way == 0:
        number = bench.source((), constant=0.0)
        value = bench.unary(bench.one_of(("nn.relu", "tanh", "negative", "abs")), number)
        return bench.binary(bench.one_of(("add", "multiply")), value, bench.value())
    shape = (1,) * bench.number(1, HIGH_RANK) if way == 1 else bench.shape(HIGH_RANK)
    value = bench.source(shape, constant=0.0)
    if bench.chance(0.5) and volume(shape) <= LARGEST:
        axes = [int(axis) for axis in bench.rng.permutation(len(shape))]
        value = bench.add("permute_dims", (value,), {"axes": axes}, [shape[axis] for axis in axes])
    return bench.unary(bench.one_of(("nn.relu", "tanh", "negative", "abs")), value)


EDGES: tuple[tuple[float, Idiom], ...] = (
    (4, clipped),
    (4, scaled_backwards),
    (5, infinite),
    (2, undefined),
    (2, sunk),
    (2, of_signed_zero),
    (4, divided_down),
    (4, pooled_at_edges),
    (3, sliced_back),
    (3, of_odd_shape),
)
"""Weights and idioms."""
