"""Pooling with a window, global and adaptive pooling."""

from __future__ import annotations

from collections.abc import Iterator

from annotated_region.backends.dnnl.graph import Dim, Kind, TensorId
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.ops.checks import (
    BYTES,
    DATA_LAYOUTS,
    FLOATS,
    Problems,
    layout_problem,
    window_problem,
)
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.parameters import Pooling
from annotated_region.backends.dnnl.views import axes_between, permute, permuted_shape
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

WHOLE = 0
"""As the extent of a window: the whole axis, whose extent is known when the function is called."""

LARGEST = ("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d")
AVERAGES = ("relax.nn.avg_pool1d", "relax.nn.avg_pool2d", "relax.nn.avg_pool3d")


def _window_problems(op: OpView) -> Problems:
    window, dilation, padding = op.attrs["pool_size"], op.attrs["dilation"], op.attrs["padding"]
    layout = DATA_LAYOUTS[len(window)]
    yield layout_problem(op.attrs["layout"], layout, "the layout")
    yield layout_problem(op.attrs["out_layout"], layout, "the layout of the result")
    yield window_problem(op)
    reach = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    if any(pad >= extent for pad, extent in zip(padding, reach * 2, strict=True)):
        yield "the padding is as wide as the window, so a window may hold nothing but padding"
    if any(_straddles(extent, step) for extent, step in _padded_steps(op)):
        yield "a dilated window may hold nothing but padding, as its gaps are as wide as the operand"
    if op.name not in AVERAGES:
        return
    if any(step != 1 for step in dilation):
        yield "an average over a dilated window"
    if op.attrs["ceil_mode"]:
        yield from _beyond_problems(op)


def _padded_steps(op: OpView) -> Iterator[tuple[Dim, int]]:
    """The extents of the padded axes, each with the distance between elements of a window."""
    attrs = op.attrs
    extents = dict(zip(attrs["layout"], extents_of(op.arg_types[0]) or (), strict=True))
    spatial = [extents[letter] for letter in attrs["layout"] if letter not in "NC"]
    rank = len(spatial)
    for axis, (extent, step) in enumerate(zip(spatial, attrs["dilation"], strict=True)):
        if attrs["padding"][axis] or attrs["padding"][rank + axis]:
            yield extent, step


def _straddles(extent: Dim, step: int) -> bool:
    """Whether all elements of an axis may fall into a gap between two elements of a window."""
    return step > 1 and not (isinstance(extent, int) and extent >= step)


def _beyond_problems(op: OpView) -> Problems:
    """Why an average whose last window may exceed the padding cannot be computed.

    Relax counts the covered part of operand and padding, oneDNN the whole window or the operand only.
    """
    window, padding = op.attrs["pool_size"], op.attrs["padding"]
    if op.attrs["count_include_pad"] and any(padding):
        yield "an average with ceil_mode, whose divisor counts padding, but not what is beyond it"
    ends = padding[len(window) :]
    if any(step + pad > size for step, pad, size in zip(op.attrs["strides"], ends, window, strict=True)):
        yield "an average with ceil_mode, whose last window may hold nothing but padding"


@converts(*LARGEST, types=(*FLOATS, *BYTES), result=(*FLOATS, *BYTES), unless=_window_problems)
@converts(*AVERAGES, unless=_window_problems)
def _windowed(call: OpConversion) -> TensorId:
    size, strides, padding = (tuple(call.attrs[name]) for name in ("pool_size", "strides", "padding"))
    dilation = tuple(value - 1 for value in call.attrs["dilation"])
    # Beyond the padding, where `ceil_mode` may put a part of a window, nothing is counted.
    counts = call.attrs["count_include_pad"] and not call.attrs["ceil_mode"]
    rule = "include" if counts else "exclude"
    algorithm = f"pooling_avg_{rule}_padding" if call.op.name in AVERAGES else "pooling_max"
    rank = len(size)
    return _pooled(call, Pooling(algorithm, size, strides, dilation, padding[:rank], padding[rank:]))


def _pooled(call: OpConversion, window: Pooling) -> TensorId:
    """A pooling between the permutations from and to the layout of the op."""
    layout, given = DATA_LAYOUTS[len(window.size)], call.attrs["layout"]
    out_layout = call.attrs["out_layout"] or given
    data = permute(call.graph, call.operand(0), axes_between(given, layout))
    shape = permuted_shape(call.shape, axes_between(out_layout, layout))
    result = call.graph.add(Kind.POOLING, (data,), shape, window)
    return permute(call.graph, result, axes_between(layout, out_layout))


ADAPTIVE = tuple(f"relax.nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3))


def _division_problems(op: OpView) -> Problems:
    yield layout_problem(op.attrs["layout"], _layout_of(op), "the layout")
    if op.attrs["out_layout"] not in ("", op.attrs["layout"]):
        yield f"the layout of the result is {op.attrs['out_layout']}"


def _layout_of(op: OpView) -> str:
    """The order of the axes in oneDNN for an adaptive pool, by the rank in its name."""
    return DATA_LAYOUTS[ADAPTIVE.index(op.name) + 1]


def _has_equal_windows(op: OpView) -> bool:
    if any(_division_problems(op)):  # in another layout, axes and letters do not match
        return False
    before, after = extents_of(op.arg_types[0]) or (), extents_of(op.out_type) or ()
    pairs = zip(before, after, op.attrs["layout"], strict=True)
    return all(letter in "NC" or part == 1 or _divides(whole, part) for whole, part, letter in pairs)


def _divides(whole: Dim, part: Dim) -> bool:
    return isinstance(whole, int) and isinstance(part, int) and whole % part == 0


@converts(*ADAPTIVE, unless=_division_problems, suits=_has_equal_windows)
def _adaptive(call: OpConversion) -> TensorId:
    """Adaptive pooling with windows of equal size: the extents divide."""
    axes = axes_between(call.attrs["layout"], DATA_LAYOUTS[len(call.shape) - 2])
    before, after = (permuted_shape(shape, axes)[2:] for shape in (call.extents(0), call.shape))
    size = tuple(WHOLE if out == 1 else _ratio(whole, out) for whole, out in zip(before, after, strict=True))
    steps, zeros = tuple(max(extent, 1) for extent in size), (0,) * len(size)
    return _pooled(call, Pooling("pooling_avg_exclude_padding", size, steps, zeros, zeros, zeros))


@converts(*ADAPTIVE, unless=_division_problems)
def _means_of_parts(call: OpConversion) -> TensorId:
    """Windows of different sizes, or of sizes that only the call knows."""
    graph, given = call.graph, call.attrs["layout"]
    layout = DATA_LAYOUTS[len(call.shape) - 2]
    data = permute(graph, call.operand(0), axes_between(given, layout))
    shape = permuted_shape(call.shape, axes_between(given, layout))
    return permute(graph, graph.add(Kind.PART_MEANS, (data,), shape), axes_between(layout, given))


def _ratio(whole: object, part: object) -> int:
    assert isinstance(whole, int)
    assert isinstance(part, int)
    return whole // part
