"""Changes of shape and order, concatenation, broadcast."""

from __future__ import annotations

from annotated_region.backends.dnnl.conversions.arithmetic import broadcast_to
from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.views import permute, reshape
from annotated_region.op_view import OpView

__all__ = ["CONVERTERS"]


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
    return importer.graph.add(Kind.CONCAT, parts, shape, ints=((op.attrs["axis"] or 0) % len(shape),))


def _broadcast(importer: Importer, op: OpView) -> TensorId:
    return broadcast_to(importer.graph, importer.operand(op.args[0]), importer.shape(op.call))


CONVERTERS: dict[str, Convert] = {
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.squeeze": _reshape,
    "relax.expand_dims": _reshape,
    "relax.permute_dims": _permute,
    "relax.concat": _concat,
    "relax.broadcast_to": _broadcast,
}
