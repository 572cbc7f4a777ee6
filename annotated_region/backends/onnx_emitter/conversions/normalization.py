"""Normalizations at inference: batch, layer, group, instance, root mean square."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import tirx

from annotated_region.backends.onnx_emitter.conversions.reduction import reduced
from annotated_region.backends.onnx_emitter.conversions.shape import reshaped
from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []

LAYER_OPSET = 17


def _affine(emission: Emission, op: OpView) -> tuple[str, str]:
    """Scale and shift. TVM applies them even if the op disables them, so then they must be ones and zeros."""
    for position, flag, neutral in ((1, "scale", 1), (2, "center", 0)):
        given = op.constant(position)
        is_neutral = given is not None and bool((given == neutral).all())
        require(bool(op.attrs[flag]) or is_neutral, "it disables a scale or a shift that TVM applies")
    return emission.operand(op.args[1]), emission.operand(op.args[2])


def _axes(op: OpView) -> list[int]:
    rank = len(extents_of(op.arg_types[0]))
    return sorted(axis % rank for axis in op.attrs["axes"])


def _last_axes(op: OpView) -> list[int]:
    """The axes of a norm whose parameters have their extents, in the order in which the op names them."""
    rank = len(extents_of(op.arg_types[0]))
    axes = [int(axis) % rank for axis in op.attrs["axes"]]
    require(axes == list(range(axes[0], rank)), f"it normalizes over the axes {axes}, which are not the last")
    return axes


@converter("relax.nn.batch_norm")
def _batch_norm(emission: Emission, op: OpView) -> tuple[str | None, ...]:
    require(not op.attrs["training"], "it is in training mode, which computes statistics")
    data, mean, variance = (emission.operand(op.args[position]) for position in (0, 3, 4))
    parameters = (*_affine(emission, op), mean, variance)
    rank = len(extents_of(op.arg_types[0]))
    axis = op.attrs["axis"] % rank
    require(axis > 0 and rank > 1, "it normalizes along the batch")
    order = [0, axis, *(other for other in range(1, rank) if other != axis)]
    moved = data if axis == 1 else emission.node("Transpose", data, perm=order)
    result = emission.node("BatchNormalization", moved, *parameters, epsilon=float(op.attrs["epsilon"]))
    if axis != 1:
        result = emission.node("Transpose", result, perm=[order.index(other) for other in range(rank)])
    return result, parameters[2], parameters[3]


@converter("relax.nn.layer_norm")
def _layer_norm(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    scale, shift = _affine(emission, op)
    axes = _last_axes(op)
    epsilon = float(op.attrs["epsilon"])
    if emission.opset >= LAYER_OPSET:
        return emission.node("LayerNormalization", data, scale, shift, axis=axes[0], epsilon=epsilon)
    centred = emission.node("Sub", data, reduced(emission, "ReduceMean", data, axes))
    variance = reduced(emission, "ReduceMean", emission.node("Mul", centred, centred), axes)
    deviation = emission.node("Sqrt", emission.node("Add", variance, emission.like(epsilon, data)))
    scaled = emission.node("Mul", emission.node("Div", centred, deviation), scale)
    return emission.node("Add", scaled, shift)


@converter("relax.nn.rms_norm")
def _rms_norm(emission: Emission, op: OpView) -> str:
    data, scale = (emission.operand(argument) for argument in op.args)
    axes, dtype = _last_axes(op), emission.dtype(data)
    # Squares of half precision overflow early, so all engines compute the mean in single precision.
    wide = emission.cast(data, "float32")
    squares = emission.node("Pow", wide, emission.number(2.0, "float32"))
    mean = reduced(emission, "ReduceMean", squares, axes)
    size = emission.node("Sqrt", emission.node("Add", mean, emission.like(float(op.attrs["epsilon"]), mean)))
    return emission.node("Mul", emission.cast(emission.node("Div", wide, size), dtype), scale)


@converter("relax.nn.instance_norm")
def _instance_norm(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    scale, shift = _affine(emission, op)
    _require_spatial(op)
    extents = extents_of(op.arg_types[0])
    rows = _rows(emission, data, extents, extents)
    normal = emission.node("InstanceNormalization", rows, scale, shift, epsilon=float(op.attrs["epsilon"]))
    return normal if rows == data else emission.reshape_to(normal, extents)


@converter("relax.nn.group_norm")
def _group_norm(emission: Emission, op: OpView) -> str:
    """Each group as one channel of an instance normalization, then scale and shift of the actual channels."""
    _require_spatial(op)
    data = emission.operand(op.args[0])
    scale, shift = _affine(emission, op)
    extents, groups, dtype = extents_of(op.arg_types[0]), op.attrs["num_groups"], emission.dtype(data)
    ones = emission.cast(emission.graph.constant(np.ones(groups, "float32")), dtype)
    zeros = emission.cast(emission.graph.constant(np.zeros(groups, "float32")), dtype)
    batch, channels, *spatial = extents
    inner = math.prod([channels // groups, *spatial])
    grouped = _rows(emission, data, extents, [batch, groups, inner])
    normal = emission.node("InstanceNormalization", grouped, ones, zeros, epsilon=float(op.attrs["epsilon"]))
    whole = emission.reshape_to(normal, extents)
    behind = [-1, *[1] * (len(extents) - 2)]
    scaled = emission.node("Mul", whole, _column(emission, scale, behind))
    return emission.node("Add", scaled, _column(emission, shift, behind))


def _rows(emission: Emission, data: str, before: Sequence[Dim], after: Sequence[Dim]) -> str:
    """The data in the shape in which the numbers behind the channels are normalized.

    Where there are none and the engine would read some, it becomes as empty a tensor of no images with a
    number for each channel: ``[n, c, 0]`` becomes ``[0, c, 1]``.
    """
    batch, channels, *spatial = after
    numbers = math.prod(spatial)
    safe = "InstanceNormalization" not in emission.graph.dialect.reads_empty_rows
    if safe or isinstance(numbers, int):
        return data if before is after else reshaped(emission, data, before, after)
    one = tirx.IntImm("int64", 1)
    images = batch * tirx.Min(numbers, one)
    filled = [each if isinstance(each, int) else tirx.Max(each, one) for each in spatial]
    return emission.reshape_to(data, [images, channels, *filled])


def _column(emission: Emission, value: str, shape: Sequence[int]) -> str:
    return emission.node("Reshape", value, emission.ints(shape))


def _require_spatial(op: OpView) -> None:
    extents, axes = extents_of(op.arg_types[0]), _axes(op)
    rank = len(extents)
    require(op.attrs["channel_axis"] % rank == 1, "the channels are not axis 1")
    if axes[:1] == [0] and isinstance(extents[0], int) and extents[0] == 1:
        del axes[0]  # PyTorch folds the batch into the channels, and lists the axis that is left of it
    require(axes == list(range(2, rank)), "it does not normalize over all axes after the channels")
    require(rank > 2, "there are no axes after the channels")
