"""Products, convolutions, pools and norms, with what usually stands behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom, narrowed, other_operand
from kits.dense_graphs.quantization import dequantized, round_trip
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed

__all__ = ["WINDOWS", "behind"]

LAYOUTS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


def behind(bench: Bench, value: int) -> int:
    """A bias, a scale, an activation, a sum with something of the same shape: what is fused."""
    for _ in range(bench.number(0, 3)):
        value = viewed(bench, value, 0.15)
        way = bench.rng.random()
        if way < 0.35:
            value = bench.unary(bench.one_of(("nn.relu", "sigmoid", "nn.gelu", "tanh", "nn.silu")), value)
        elif way < 0.65:
            value = bench.binary("add", value, bench.source(narrowed(bench, bench.shape_of(value))))
        else:
            name = bench.one_of(("add", "multiply", "subtract", "maximum"))
            pair = [value, other_operand(bench, value)]
            if bench.chance(0.5):
                pair.reverse()
            value = bench.binary(name, pair[0], pair[1])
    return value


def matmul(bench: Bench) -> int | None:
    """Of any ranks; either side may come through a view."""
    left = viewed(bench, bench.value())
    shape = bench.shape_of(left)
    if not shape:
        return None
    inner = shape[-1]
    columns: tuple[Dim, ...] = (bench.extent(),)
    if bench.chance(0.2):
        found = _product_with_known(bench, left)
        if found is not None:
            return behind(bench, found)
    stack: tuple[Dim, ...] = ()
    if len(shape) > 2 and bench.chance(0.5):
        stack = tuple(narrowed(bench, shape[:-2]))[: len(shape) - 2]
    right = bench.source((*stack, inner, *columns), constant=0.6)
    result = _product(bench, left, right)
    return None if result is None else behind(bench, result)


def _product(bench: Bench, left: int, right: int) -> int | None:
    a, b = bench.shape_of(left), bench.shape_of(right)
    row = a[-2:-1]
    column = b[-1:] if len(b) > 1 else ()
    stack = Bench.broadcast(a[:-2], b[:-2])
    if stack is None or volume((*stack, *row, *column)) > LARGEST or not (*stack, *row, *column):
        return None
    return bench.add("matmul", (left, right), {}, (*stack, *row, *column))


def _product_with_known(bench: Bench, left: int) -> int | None:
    inner = bench.shape_of(left)[-1]
    found = bench.pick(lambda node: len(node.shape) > 1 and inner in node.shape[-2:])
    if found is None:
        return None
    if bench.shape_of(found)[-2] != inner:
        rank = len(bench.shape_of(found))
        axes = [*range(rank - 2), rank - 1, rank - 2]
        shape = [bench.shape_of(found)[axis] for axis in axes]
        found = bench.add("permute_dims", (found,), {"axes": axes}, shape)
    return _product(bench, left, found)


def _image(bench: Bench) -> tuple[int, int] | None:
    """A value with one to three spatial axes, all known, and how many."""
    spatial = bench.one_of((1, 2, 2, 2, 3))
    value = viewed(bench, bench.value(spatial + 2), 0.25)
    shape = bench.shape_of(value)
    spatial = len(shape) - 2
    if not 1 <= spatial <= 3 or any(not isinstance(extent, int) for extent in shape[1:]):
        return None
    return value, spatial


def known(extents: Sequence[Dim]) -> list[int]:
    """Extents that are numbers."""
    return [extent for extent in extents if isinstance(extent, int)]


def _strides(bench: Bench, spatial: int) -> list[int]:
    return [bench.one_of((1, 1, 1, 2)) for _ in range(spatial)]


@dataclass(frozen=True, slots=True)
class Window:
    """What moves over an image: sizes, padding on both sides, dilation and strides, one an axis."""

    size: list[int]
    before: list[int]
    after: list[int]
    dilation: list[int]
    strides: list[int]

    @staticmethod
    def within(bench: Bench, extents: Sequence[int], strides: list[int]) -> Window:
        """One that fits into an image."""
        window = Window([], [], [], [], strides)
        for extent in extents:
            size = bench.one_of((1, 1, 2, 3))
            before, after = (bench.number(0, 1) if size > 1 else 0 for _ in range(2))
            step = 2 if size > 1 and extent >= 2 * size and bench.chance(0.2) else 1
            while (size - 1) * step + 1 > extent + before + after:
                size, step = size - 1, 1
            window.size.append(size)
            window.before.append(before)
            window.after.append(after)
            window.dilation.append(step)
        return window

    @property
    def attrs(self) -> dict[str, Any]:
        """As a convolution takes it."""
        padding = [*self.before, *self.after]
        return {"strides": self.strides, "padding": padding, "dilation": self.dilation}

    def results(self, extents: Sequence[int]) -> list[int]:
        """How many places there are along each axis."""
        sides = zip(extents, self.before, self.after, strict=True)
        reach = [(size - 1) * step + 1 for size, step in zip(self.size, self.dilation, strict=True)]
        return [
            (extent + low + high - part) // stride + 1
            for (extent, low, high), part, stride in zip(sides, reach, self.strides, strict=True)
        ]


def _in_layout(plain: str, layout: str, extents: Sequence[Dim]) -> list[Dim]:
    """Extents in the order of another layout."""
    return [extents[plain.index(letter)] for letter in layout]


def convolution(bench: Bench) -> int | None:
    """With groups, strides, padding, dilation, in several layouts; a batch norm may follow."""
    found = _image(bench)
    if found is None:
        return None
    value, spatial = found
    plain = LAYOUTS[spatial + 2]
    last = f"N{plain[2:]}C"
    layout, out_layout = bench.one_of(((plain, plain),) * 3 + ((last, last), (last, plain)))
    batch, channels, *extents = _in_layout(layout, plain, bench.shape_of(value))
    sizes = known(extents)
    if not isinstance(channels, int) or len(sizes) < spatial:
        return None
    window = Window.within(bench, sizes, _strides(bench, spatial))
    groups = bench.one_of([1, 1, *(count for count in (2, channels) if channels % count == 0)])
    filters = groups * bench.one_of((1, 2, 3))
    given = bench.one_of((f"OI{plain[2:]}", f"OI{plain[2:]}", f"{plain[2:]}IO", f"O{plain[2:]}I"))
    shape = _in_layout(f"OI{plain[2:]}", given, (filters, channels // groups, *window.size))
    attrs = {
        **window.attrs,
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": given,
        "out_layout": out_layout,
    }
    whole = _in_layout(plain, out_layout, (batch, filters, *window.results(sizes)))
    result = bench.add(f"nn.conv{spatial}d", (value, bench.source(shape, constant=0.8)), attrs, whole)
    if bench.chance(0.3):
        result = normed_batch(bench, result) or result
    return behind(bench, result)


def quantized_convolution(bench: Bench) -> int | None:
    """Between int8 and back, with weights of int8."""
    found = _image(bench)
    if found is None:
        return None
    value, spatial = found
    batch, channels = bench.shape_of(value)[:2]
    extents = known(bench.shape_of(value)[2:])
    if not isinstance(channels, int) or len(extents) < spatial:
        return None
    window = Window.within(bench, extents, [1] * spatial)
    filters = bench.one_of((1, 2, 3, 8))
    raw = bench.source((filters, channels, *window.size), "signed", "int8", constant=1.0)
    weight = dequantized(bench, raw, "int8", axis=0)
    out = window.results(extents)
    data = round_trip(bench, value)
    result = bench.add(f"nn.conv{spatial}d", (data, weight), window.attrs, (batch, filters, *out))
    if bench.chance(0.5):
        result = bench.binary("add", result, bench.source((filters, *([1] * spatial)), constant=1.0))
    if bench.chance(0.4):
        result = bench.unary("nn.relu", result)
    return round_trip(bench, result) if bench.chance(0.6) else result


def transposed(bench: Bench) -> int | None:
    """A transposed convolution."""
    found = _image(bench)
    if found is None:
        return None
    value, spatial = found
    batch, channels = bench.shape_of(value)[:2]
    extents = known(bench.shape_of(value)[2:])
    assert isinstance(channels, int)
    kernel = [bench.number(1, 3) for _ in extents]
    strides = [bench.number(1, 2) for _ in extents]
    before, after = ([bench.number(0, k - 1) if bench.chance(0.4) else 0 for k in kernel] for _ in range(2))
    extra = [bench.number(0, min(s - 1, high)) for s, high in zip(strides, after, strict=True)]
    groups = bench.one_of([1, 1, *(count for count in (2, channels) if channels % count == 0)])
    filters = bench.one_of((1, 2))
    ends = zip(before, after, extra, strict=True)
    out = [
        (e - 1) * s + k + more - low - high
        for e, s, k, (low, high, more) in zip(extents, strides, kernel, ends, strict=True)
    ]
    if min(out) < 1 or volume((batch, groups * filters, *out)) > LARGEST:
        return None
    weight = bench.source((channels, filters, *kernel), constant=0.8)
    attrs = {"strides": strides, "padding": [*before, *after], "output_padding": extra, "groups": groups}
    result = bench.add(
        f"nn.conv{spatial}d_transpose", (value, weight), attrs, (batch, groups * filters, *out)
    )
    return behind(bench, result)


def pool(bench: Bench) -> int | None:
    """Maximum or average, over windows or all."""
    found = _image(bench)
    if found is None:
        return None
    value, spatial = found
    batch, channels = bench.shape_of(value)[:2]
    extents = known(bench.shape_of(value)[2:])
    if bench.chance(0.35):
        size = [bench.one_of((e, 1, 1, bench.number(1, e + 1))) for e in extents]
        name = f"nn.adaptive_avg_pool{spatial}d"
        return bench.add(name, (value,), {"output_size": size}, (batch, channels, *size))
    kernel = [bench.number(1, min(3, e)) for e in extents]
    strides = _strides(bench, spatial)
    before, after = ([bench.number(0, 1) if k > 1 else 0 for k in kernel] for _ in range(2))
    kind = bench.one_of(("max", "avg"))
    attrs: dict[str, Any] = {"pool_size": kernel, "strides": strides, "padding": [*before, *after]}
    if kind == "avg":
        attrs["count_include_pad"] = bench.chance(0.5)
    else:
        attrs["ceil_mode"] = bench.chance(0.3)
    out = [
        _windows_in(e + low + high - k, s, bool(attrs.get("ceil_mode")))
        for e, low, high, k, s in zip(extents, before, after, kernel, strides, strict=True)
    ]
    if attrs.get("ceil_mode") and any(
        (o - 1) * s >= e + low for o, s, e, low in zip(out, strides, extents, before, strict=True)
    ):
        return None  # a window would begin behind the image
    return bench.add(f"nn.{kind}_pool{spatial}d", (value,), attrs, (batch, channels, *out))


def _windows_in(room: int, stride: int, ceil: bool) -> int:
    return (room + (stride - 1 if ceil else 0)) // stride + 1


def normed_batch(bench: Bench, value: int) -> int | None:
    """Stored statistics."""
    shape = bench.shape_of(value)
    if not 2 <= len(shape) <= 5 or not isinstance(shape[1], int):
        return None
    vector = (shape[1],)
    given = [
        bench.source(vector, kind, constant=0.9) for kind in ("positive", "normal", "normal", "positive")
    ]
    attrs = {"axis": 1, "epsilon": bench.one_of((1e-5, 1e-2)), "training": False}
    whole = bench.add("nn.batch_norm", (value, *given), attrs, shape)
    return bench.add("field", (whole,), {"index": 0}, shape)


def batch_norm(bench: Bench) -> int | None:
    """Of any value."""
    return normed_batch(bench, viewed(bench, bench.value()))


def norm(bench: Bench) -> int | None:
    """Layer, root mean square, group and instance norm."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if bench.chance(0.35) and len(shape) > 2:
        return _channel_norm(bench, value)
    if len(shape) < 2 or not isinstance(shape[-1], int) or shape[-1] < 2:
        return None
    count = 2 if len(shape) > 2 and isinstance(shape[-2], int) and bench.chance(0.2) else 1
    axes, vector = list(range(-count, 0)), shape[-count:]
    epsilon = bench.one_of((1e-2, 1e-1))
    if bench.chance(0.4):
        return bench.unary_with("nn.rms_norm", value, [bench.source(vector)], axes=axes, epsilon=epsilon)
    given = [bench.source(vector, "positive"), bench.source(vector)]
    return bench.unary_with("nn.layer_norm", value, given, axes=axes, epsilon=epsilon)


def _channel_norm(bench: Bench, value: int) -> int | None:
    shape = bench.shape_of(value)
    channels = shape[1]
    if not isinstance(channels, int) or volume(shape[2:]) < 2:
        return None
    given = [bench.source((channels,), "positive", constant=0.8), bench.source((channels,), constant=0.8)]
    options = {"channel_axis": 1, "axes": list(range(2, len(shape))), "epsilon": 1e-2}
    if bench.chance(0.3):
        return bench.unary_with("nn.instance_norm", value, given, **options)
    groups = bench.one_of([count for count in (1, 2, channels) if channels % count == 0])
    return bench.unary_with("nn.group_norm", value, given, num_groups=groups, **options)


def resize(bench: Bench) -> int | None:
    """By the nearest pixel, or linear."""
    value = viewed(bench, bench.value(4), 0.2)
    shape = bench.shape_of(value)
    if len(shape) != 4 or any(not isinstance(extent, int) for extent in shape):
        return None
    size = [bench.one_of((extent, 2 * extent)) for extent in known(shape[2:])]
    linear = {"method": "linear", "coordinate_transformation_mode": "half_pixel", "rounding_method": "round"}
    nearest = {
        "method": "nearest_neighbor",
        "coordinate_transformation_mode": "asymmetric",
        "rounding_method": "floor",
    }
    aligned = linear | {
        "coordinate_transformation_mode": "align_corners"
    }  # TVM aligns no corners of one pixel
    ways = (linear, nearest, aligned) if min(size) > 1 else (linear, nearest)
    attrs = {"size": size, "layout": "NCHW", **bench.one_of(ways)}
    return bench.add("image.resize2d", (value,), attrs, (*shape[:2], *size))


WINDOWS: tuple[tuple[float, Idiom], ...] = (
    (6, matmul),
    (3, convolution),
    (0.7, quantized_convolution),
    (1, transposed),
    (2.4, pool),
    (1, batch_norm),
    (3, norm),
    (0.7, resize),
)
"""Weights and idioms."""
