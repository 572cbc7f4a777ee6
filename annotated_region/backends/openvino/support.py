"""Whether OpenVINO supports an op: by the table of kernels, and by a query if OpenVINO is installed.

The query passes a model of the op alone to ``Core.query_model``, which compiles nothing. It takes some
milliseconds, so answers are cached for ops of the same kind: with the same operators, attributes, data types,
ranks, constant operands and static extents.
"""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter import Declined, EmittedModel, emit_alone, extents_of
from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.installation import core, unavailable
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__ = ["refusal"]

_MOST_AXES = 6

_LARGEST = 1 << 24
"""The size of constants in bytes above which no query is made, because copying them takes too long."""

_ANSWERS: dict[str, str | None] = {}


def refusal(op: OpView) -> str | None:
    """Why OpenVINO does not support an op; None if it does."""
    try:
        graph = emit_alone(op, DIALECT)
    except Declined as reason:
        return str(reason)
    limit = _limit(op)
    if limit is not None or unavailable() is not None or not graph.operators:
        return limit
    model = EmittedModel(graph, tuple(graph.weights), "alone")
    if model.weight_bytes > _LARGEST:
        return None
    kind = _kind(graph)
    if kind not in _ANSWERS:
        _ANSWERS[kind] = _asked(model)
    return _ANSWERS[kind]


def _limit(op: OpView) -> str | None:
    """The limit of OpenVINO that an op exceeds, and that its query does not know; None if there is none."""
    if _has_unknown_kernel(op):
        return "OpenVINO supports only convolutions whose kernels have static extents"
    if op.name == "relax.gather_elements" and not _covers_the_data(op):
        return "OpenVINO gathers elements only by indices that are as long as the data along the other axes"
    if any(map(_has_many_axes, (*op.arg_types, op.out_type))):
        return f"OpenVINO confuses tensors of symbolic extents that have more than {_MOST_AXES} axes"
    return None


def _has_unknown_kernel(op: OpView) -> bool:
    """Whether an op is a convolution whose kernel has symbolic extents."""
    return op.name.startswith("relax.nn.conv") and not all(
        isinstance(extent, int) for extent in extents_of(op.arg_types[1])
    )


def _has_many_axes(type_: tvm.ir.Type) -> bool:
    """Whether a tensor, or one of a tuple, has symbolic extents and more axes than are safe.

    OpenVINO 2026.4 takes element-wise kernels of fewer axes for it, from those that it keeps by their shapes.
    """
    if isinstance(type_, tvm.ir.TupleType):
        return any(map(_has_many_axes, type_.fields))
    if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
        return False
    extents = extents_of(type_)
    return len(extents) > _MOST_AXES and not all(isinstance(extent, int) for extent in extents)


def _covers_the_data(op: OpView) -> bool:
    """Whether the indices of a gather are known to be as long as the data along all axes but its own."""
    data, indices = map(extents_of, op.arg_types)
    axis = int(op.attrs["axis"]) % max(len(data), 1)
    pairs = enumerate(zip(data, indices, strict=True))
    return all(place == axis or provably_equal(*pair) for place, pair in pairs)


def _kind(graph: Graph) -> str:
    """The cache key of the answer; values are numbered, because their names do not matter."""
    ports = {port.name: tuple(isinstance(extent, int) for extent in port.shape) for port in graph.inputs}
    constants = {name: array.ndim for name, array in graph.constants.items()}
    weights = {name: -len(tensor.shape) for name, tensor in graph.weights.items()}
    numbers: dict[str, int] = {}

    def numbered(name: str) -> tuple[object, ...]:
        number = numbers.setdefault(name, len(numbers))
        return number, graph.dtypes.get(name), ports.get(name), constants.get(name), weights.get(name)

    return repr(
        [
            (each.kind, list(map(numbered, each.inputs)), len(each.outputs), list(each.attrs.items()))
            for each in graph.operators
        ]
    )


def _asked(model: EmittedModel) -> str | None:
    """OpenVINO's reason for rejecting a model; None if it supports the model."""
    try:
        read = core().read_model(model.complete().SerializeToString())
        taken = core().query_model(read, "CPU", CompileSettings().properties())
    except RuntimeError as error:
        return f"OpenVINO rejects it: {str(error).strip().splitlines()[-1]}"
    missing = [
        each.get_type_name() for each in read.get_ordered_ops() if each.get_friendly_name() not in taken
    ]
    return f"OpenVINO's CPU plugin does not support this {missing[0]}" if missing else None
