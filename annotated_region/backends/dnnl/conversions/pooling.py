"""Pooling with a window, global and adaptive pooling."""

from __future__ import annotations

from annotated_region.backends.dnnl.conversions.convolution import DATA_LAYOUTS
from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import Pooling
from annotated_region.backends.dnnl.views import axes_between, permute, permuted_shape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS"]

WHOLE = 0
"""As the extent of a window: all there is, known when the function is called."""


def _pool(importer: Importer, op: OpView, window: Pooling) -> TensorId:
    """A pooling between permutations from and to the layout of the op."""
    graph, rank = importer.graph, len(window.size)
    layout, given = DATA_LAYOUTS[rank], op.attrs["layout"]
    out_layout = op.attrs["out_layout"] or given
    data = permute(graph, importer.operand(op.args[0]), axes_between(given, layout))
    shape = permuted_shape(importer.shape(op.call), axes_between(out_layout, layout))
    result = graph.add(Kind.POOLING, (data,), shape, window)
    return permute(graph, result, axes_between(layout, out_layout))


def _window(op: OpView, algorithm: str) -> Pooling:
    size, strides, padding = (tuple(op.attrs[name]) for name in ("pool_size", "strides", "padding"))
    dilation = tuple(value - 1 for value in op.attrs["dilation"])
    return Pooling(algorithm, size, strides, dilation, padding[: len(size)], padding[len(size) :])


def _max_pool(importer: Importer, op: OpView) -> TensorId:
    return _pool(importer, op, _window(op, "pooling_max"))


def _avg_pool(importer: Importer, op: OpView) -> TensorId:
    rule = "include" if op.attrs["count_include_pad"] else "exclude"
    return _pool(importer, op, _window(op, f"pooling_avg_{rule}_padding"))


def _adaptive_avg_pool(importer: Importer, op: OpView) -> TensorId:
    """Windows of equal size; the rule has made sure that the extents divide."""
    rank = len(importer.shape(op.call)) - 2
    layout = DATA_LAYOUTS[rank]
    axes = axes_between(op.attrs["layout"], layout)
    before = permuted_shape(importer.shape(op.args[0]), axes)[2:]
    after = permuted_shape(importer.shape(op.call), axes)[2:]
    size = tuple(WHOLE if out == 1 else _ratio(whole, out) for whole, out in zip(before, after, strict=True))
    steps, zeros = tuple(max(extent, 1) for extent in size), (0,) * rank
    return _pool(importer, op, Pooling("pooling_avg_exclude_padding", size, steps, zeros, zeros, zeros))


def _ratio(whole: object, part: object) -> int:
    assert isinstance(whole, int)
    assert isinstance(part, int)
    return whole // part


CONVERTERS: dict[str, Convert] = {
    "relax.nn.max_pool1d": _max_pool,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.max_pool3d": _max_pool,
    "relax.nn.avg_pool1d": _avg_pool,
    "relax.nn.avg_pool2d": _avg_pool,
    "relax.nn.avg_pool3d": _avg_pool,
    "relax.nn.adaptive_avg_pool1d": _adaptive_avg_pool,
    "relax.nn.adaptive_avg_pool2d": _adaptive_avg_pool,
    "relax.nn.adaptive_avg_pool3d": _adaptive_avg_pool,
}
