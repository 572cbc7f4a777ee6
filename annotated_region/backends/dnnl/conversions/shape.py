"""Changes of shape and order, parts, concatenation, broadcast, padding, other sizes of an image."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, tirx

from annotated_region.backends.dnnl.conversions.arithmetic import broadcast_to
from annotated_region.backends.dnnl.graph import Dim, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.importer import Convert, Importer, extents_of
from annotated_region.backends.dnnl.parameters import Begins, Concat, Padding, Resampling
from annotated_region.backends.dnnl.views import align_rank, axes_between, permute, permuted_shape, reshape
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS", "slice_window"]


def _reshape(importer: Importer, op: OpView) -> TensorId:
    return reshape(importer.graph, importer.operand(op.args[0]), importer.shape(op.call))


def _permute(importer: Importer, op: OpView) -> TensorId:
    data = importer.operand(op.args[0])
    rank = len(importer.graph.shape(data))
    axes = op.attrs["axes"]
    order = range(rank)[::-1] if axes is None else [axis % rank for axis in axes]
    return permute(importer.graph, data, tuple(order))


def _concat(importer: Importer, op: OpView) -> TensorId:
    shape = importer.shape(op.call)
    parts = importer.operands(op.args[0])
    if len(parts) == 1:
        return parts[0]
    axis = (op.attrs["axis"] or 0) % len(shape)
    return importer.graph.add(Kind.CONCAT, parts, shape, Concat(axis))


def _broadcast(importer: Importer, op: OpView) -> TensorId:
    return broadcast_to(importer.graph, importer.operand(op.args[0]), importer.shape(op.call))


def _tile(importer: Importer, op: OpView) -> TensorId:
    """The whole several times along each axis: repeated along new axes, which then join the old ones."""
    graph, shape = importer.graph, importer.shape(op.call)
    times = op.attrs["repeats"]
    times = (1,) * (len(shape) - len(times)) + tuple(times)
    data = align_rank(graph, importer.operand(op.args[0]), len(shape))
    pairs = list(zip(times, graph.shape(data), strict=True))
    apart = [extent for count, whole in pairs for extent in ((1, whole) if count > 1 else (whole,))]
    wide = [extent for count, whole in pairs for extent in ((count, whole) if count > 1 else (whole,))]
    return reshape(graph, broadcast_to(graph, reshape(graph, data, apart), tuple(wide)), shape)


def _repeat(importer: Importer, op: OpView) -> TensorId:
    """Each part several times along one axis."""
    graph, shape = importer.graph, importer.shape(op.call)
    axis, count = op.attrs["axis"] % len(shape) + 1, op.attrs["repeats"]
    before = importer.shape(op.args[0])
    apart, wide = ((*before[:axis], times, *before[axis:]) for times in (1, count))
    data = reshape(graph, importer.operand(op.args[0]), apart)
    return reshape(graph, broadcast_to(graph, data, wide), shape)


def _part(
    importer: Importer, data: TensorId, begins: Sequence[int], steps: Sequence[int], shape: Sequence[Dim]
) -> TensorId:
    """The part of a tensor that begins at `begins` and takes each `steps`-th element; itself if it is all."""
    graph = importer.graph
    if not any(begins) and set(steps) == {1} and same_shape(graph.shape(data), shape):
        return data
    return graph.add(Kind.SLICE, (data,), shape, Begins(tuple(begins), tuple(steps)))


def _split(importer: Importer, op: OpView) -> tuple[TensorId, ...]:
    data = importer.operand(op.args[0])
    rank = len(importer.graph.shape(data))
    axis = op.attrs["axis"] % rank
    parts, begin = [], 0
    for field in op.out_type.fields:
        shape = extents_of(field)
        assert shape is not None
        extent = shape[axis]
        assert isinstance(extent, int)
        begins = [begin if each == axis else 0 for each in range(rank)]
        parts.append(_part(importer, data, begins, [1] * rank, shape))
        begin += extent
    return tuple(parts)


def _strided_slice(importer: Importer, op: OpView) -> TensorId:
    data = importer.operand(op.args[0])
    window = slice_window(op)
    assert window is not None
    return _part(importer, data, *window, importer.shape(op.call))


def slice_window(op: OpView) -> tuple[list[int], list[int]] | None:
    """Begin and step of a strided slice on every axis; None unless these are numbers and go forward."""
    extents = extents_of(op.arg_types[0]) or ()
    begins, steps = [0] * len(extents), [1] * len(extents)
    axes, first, _last, *stride = (_numbers(argument) for argument in op.args[1:])
    if axes is None or first is None or None in stride:
        return None
    by = stride[0] if stride and stride[0] is not None else [1] * len(axes)
    for axis, begin, step in zip(axes, first, by, strict=True):
        extent = extents[axis]
        if step < 1 or (begin and not isinstance(extent, int)):
            return None
        whole = extent if isinstance(extent, int) else 0
        begins[axis] = min(max(begin + whole if begin < 0 else begin, 0), whole)
        steps[axis] = step
    return begins, steps


def _numbers(argument: relax.Expr) -> list[int] | None:
    fields = getattr(argument, "fields", None)
    if fields is None or not all(isinstance(field, tirx.IntImm) for field in fields):
        return None
    return [int(field) for field in fields]


def _take(importer: Importer, op: OpView) -> TensorId:
    """Neighbouring indices that are known: a part of the tensor, without the axis if it is one number."""
    data = importer.operand(op.args[0])
    extents = importer.graph.shape(data)
    index = op.constant(1)
    assert index is not None
    axis = op.attrs["axis"] % len(extents)
    begins = [int(index.flat[0]) if each == axis else 0 for each in range(len(extents))]
    shape = [index.size if each == axis else extent for each, extent in enumerate(extents)]
    part = _part(importer, data, begins, [1] * len(extents), shape)
    return reshape(importer.graph, part, importer.shape(op.call))


def _pad(importer: Importer, op: OpView) -> TensorId:
    padding = Padding(tuple(op.attrs["pad_width"][::2]), float(op.attrs["pad_value"]))
    inputs = (importer.operand(op.args[0]),)
    return importer.graph.add(Kind.PAD, inputs, importer.shape(op.call), padding)


def _stack(importer: Importer, op: OpView) -> TensorId:
    graph, shape = importer.graph, importer.shape(op.call)
    axis = (op.attrs["axis"] or 0) % len(shape)
    apart = (*shape[:axis], 1, *shape[axis + 1 :])
    parts = [reshape(graph, part, apart) for part in importer.operands(op.args[0])]
    return parts[0] if len(parts) == 1 else graph.add(Kind.CONCAT, parts, shape, Concat(axis))


def _resize(importer: Importer, op: OpView) -> TensorId:
    graph = importer.graph
    forward = axes_between(op.attrs["layout"], "NCHW")
    data = permute(graph, importer.operand(op.args[0]), forward)
    shape = permuted_shape(importer.shape(op.call), forward)
    algorithm = "resampling_nearest" if op.attrs["method"] == "nearest_neighbor" else "resampling_linear"
    result = graph.add(Kind.RESAMPLING, (data,), shape, Resampling(algorithm))
    return permute(graph, result, axes_between("NCHW", op.attrs["layout"]))


CONVERTERS: dict[str, Convert] = {
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.squeeze": _reshape,
    "relax.expand_dims": _reshape,
    "relax.permute_dims": _permute,
    "relax.concat": _concat,
    "relax.broadcast_to": _broadcast,
    "relax.tile": _tile,
    "relax.repeat": _repeat,
    "relax.split": _split,
    "relax.strided_slice": _strided_slice,
    "relax.take": _take,
    "relax.nn.pad": _pad,
    "relax.stack": _stack,
    "relax.image.resize2d": _resize,
}
