"""Ops that move data and compute nothing: shapes, axis orders, concatenation, splits, slices, padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.types import expect

__all__ = ["reshaped"]

WRAP_OPSET = 19


def reshaped(emission: Emission, data: str, before: Sequence[Dim], after: Sequence[Dim]) -> str:
    """Emit a reshape. Symbolic extents are copied or inferred where ONNX can, otherwise computed.

    1. Symbolic extents that all stand at the same index as before are copied: 0 in the shape.
    2. A single one at another index is inferred: -1 in the shape.
    3. Others are computed from the shapes of the inputs. One cannot be inferred beside one that is copied:
       the latter may be 0, and ONNX Runtime then refuses the shape.
    """
    copied = [
        position < len(before) and not isinstance(extent, int) and _same(before[position], extent)
        for position, extent in enumerate(after)
    ]
    open_places = [
        position
        for position, extent in enumerate(after)
        if not isinstance(extent, int) and not copied[position]
    ]
    is_inferable = not open_places or (len(open_places) == 1 and not any(copied))
    if not is_inferable or 0 in after:
        require(0 not in after, "an empty tensor is reshaped")
        return emission.reshape_to(data, after)
    constant = [
        0 if copied[position] else extent if isinstance(extent, int) else -1
        for position, extent in enumerate(after)
    ]
    return emission.node("Reshape", data, emission.ints(constant))


def _same(left: Dim, right: Dim) -> bool:
    return (
        not isinstance(left, int)
        and not isinstance(right, int)
        and bool(left.same_as(right) or left == right)
    )


def _reshaped_to_result(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    return reshaped(emission, data, extents_of(op.arg_types[0]), extents_of(op.out_type))


@converter("relax.reshape", "relax.flatten", "relax.nn.batch_flatten")
def _reshape(emission: Emission, op: OpView) -> str:
    return _reshaped_to_result(emission, op)


@converter("relax.shape_of", alone=False)
def _shape_of(emission: Emission, op: OpView) -> str:
    return emission.node("Shape", emission.operand(op.args[0]))


@converter("relax.shape_to_tensor")
def _shape_to_tensor(emission: Emission, op: OpView) -> str:
    """Claimed alone if it holds the extents themselves: no region can take a shape from another op."""
    shape = op.args[0]
    if isinstance(shape, relax.ShapeExpr):
        return emission.node("Identity", emission.shape(shape.values))
    return emission.operand(shape)


@converter("relax.squeeze")
def _squeeze(emission: Emission, op: OpView) -> str:
    extents, axes = extents_of(op.arg_types[0]), op.attrs["axis"]
    if axes is None:
        axes = [axis for axis, extent in enumerate(extents) if extent == 1]
    kept = [axis % len(extents) for axis in axes if isinstance(extents[axis], int) and extents[axis] == 1]
    require(len(kept) == len(axes), "an axis to squeeze is not known to have extent 1")
    return emission.node("Squeeze", emission.operand(op.args[0]), emission.ints(sorted(kept)))


@converter("relax.expand_dims")
def _expand_dims(emission: Emission, op: OpView) -> str:
    rank = len(extents_of(op.out_type))
    axes = emission.ints(sorted(axis % rank for axis in op.attrs["axis"]))
    return emission.node("Unsqueeze", emission.operand(op.args[0]), axes)


@converter("relax.permute_dims")
def _permute(emission: Emission, op: OpView) -> str:
    extents, axes = extents_of(op.arg_types[0]), op.attrs["axes"]
    rank = len(extents)
    order = list(reversed(range(rank))) if axes is None else [axis % rank for axis in axes]
    if emission.graph.dialect.reshapes_permutations and _is_open_view(extents, order):
        return emission.reshape_to(emission.operand(op.args[0]), [extents[axis] for axis in order])
    return emission.node("Transpose", emission.operand(op.args[0]), perm=order)


def _is_open_view(extents: Sequence[Dim], order: Sequence[int]) -> bool:
    """Whether a permutation moves only axes of extent 1, and an extent is symbolic, and so may be 0."""
    kept = [axis for axis in order if not _is_one(extents[axis])]
    return kept == sorted(kept) and not all(isinstance(extent, int) for extent in extents)


def _is_one(extent: Dim) -> bool:
    return isinstance(extent, int) and extent == 1


@converter("relax.broadcast_to")
def _broadcast(emission: Emission, op: OpView) -> str:
    return emission.node("Expand", emission.operand(op.args[0]), emission.shape(extents_of(op.out_type)))


@converter("relax.concat")
def _concat(emission: Emission, op: OpView) -> str:
    parts = emission.operands(op.args[0])
    axis = op.attrs["axis"]
    if axis is None:
        parts, axis = tuple(emission.node("Reshape", part, emission.ints([-1])) for part in parts), 0
    return emission.node("Concat", *parts, axis=axis)


@converter("relax.stack")
def _stack(emission: Emission, op: OpView) -> str:
    axis = (op.attrs["axis"] or 0) % len(extents_of(op.out_type))
    at = emission.ints([axis])
    parts = [emission.node("Unsqueeze", part, at) for part in emission.operands(op.args[0])]
    return emission.node("Concat", *parts, axis=axis)


@converter("relax.split")
def _split(emission: Emission, op: OpView) -> tuple[str, ...]:
    axis = op.attrs["axis"]
    require(isinstance(op.out_type, tvm.ir.TupleType), "its only part is a tensor, and no tuple")
    sizes = [extents_of(part)[axis] for part in expect(tvm.ir.TupleType, op.out_type).fields]
    require(all(isinstance(size, int) for size in sizes), "the extent of a part is symbolic")
    data = emission.operand(op.args[0])
    return emission.nodes("Split", [data, emission.shape(sizes)], len(sizes), axis=axis)


@converter("relax.strided_slice")
def _strided_slice(emission: Emission, op: OpView) -> str:
    tuples = [argument for argument in op.args[1:] if isinstance(argument, relax.Tuple)]
    require(len(tuples) == len(op.args) - 1, "the bounds of the slice are computed")
    axes, begin, end, *steps = ([_number(field) for field in argument.fields] for argument in tuples)
    strides = steps[0] if steps else [1] * len(axes)
    require(all(isinstance(value, int) for value in (*axes, *strides)), "an axis or a stride is symbolic")
    operands = (emission.shape(values) for values in (begin, end, axes, strides))
    return emission.node("Slice", emission.operand(op.args[0]), *operands)


def _number(value: relax.Expr) -> Dim:
    if isinstance(value, tirx.IntImm):
        return int(value)
    require(isinstance(value.ty, tvm.ir.PrimType), f"{value} is not a number")
    return value


@converter("relax.flip")
def _flip(emission: Emission, op: OpView) -> str:
    axis = emission.ints([op.attrs["axis"]])
    lowest = emission.ints([np.iinfo(np.int64).min])
    return emission.node(
        "Slice", emission.operand(op.args[0]), emission.ints([-1]), lowest, axis, emission.ints([-1])
    )


@converter("relax.tile")
def _tile(emission: Emission, op: OpView) -> str:
    data, repeats = emission.operand(op.args[0]), [int(count) for count in op.attrs["repeats"]]
    before = extents_of(op.arg_types[0])
    missing = len(repeats) - len(before)
    if missing > 0:
        data = emission.node("Unsqueeze", data, emission.ints(range(missing)))
    return emission.node("Tile", data, emission.ints([1] * -missing + repeats))


@converter("relax.repeat")
def _repeat(emission: Emission, op: OpView) -> str:
    """Each element several times in a row: a new inner axis is broadcast, then merged with its own."""
    data, axis = emission.operand(op.args[0]), op.attrs["axis"]
    extents = list(extents_of(op.arg_types[0]))
    require(axis is not None or all(isinstance(extent, int) for extent in extents), "symbolic and flattened")
    if axis is None:
        data, axis = emission.node("Reshape", data, emission.ints([-1])), 0
        extents = list(extents_of(op.out_type))
    axis %= len(extents)
    behind = emission.node("Unsqueeze", data, emission.ints([axis + 1]))
    stretch = [1] * (len(extents) + 1)
    stretch[axis + 1] = int(op.attrs["repeats"])
    wide = emission.node("Tile", behind, emission.ints(stretch))
    return emission.reshape_to(wide, extents_of(op.out_type))


@converter("relax.nn.pad")
def _pad(emission: Emission, op: OpView) -> str:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if emission.opset >= WRAP_OPSET:
        modes["circular"] = "wrap"
    data, mode, widths = emission.operand(op.args[0]), op.attrs["pad_mode"], op.attrs["pad_width"]
    if mode not in modes:
        raise Declined(f"the padding mode {mode}")
    pads = emission.ints([*widths[::2], *widths[1::2]])
    if mode == "constant":
        return emission.node("Pad", data, pads, emission.like(op.attrs["pad_value"], data), mode="constant")
    return emission.node("Pad", data, pads, mode=modes[mode])


@converter("relax.size")
def _size(emission: Emission, op: OpView) -> str:
    return emission.node("Size", emission.operand(op.args[0]))


@converter("relax.nn.pixel_shuffle")
def _pixel_shuffle(emission: Emission, op: OpView) -> str:
    """Channels become squares of pixels: two new axes after the channels move behind height and width."""
    data, factor = emission.operand(op.args[0]), int(op.attrs["upscale_factor"])
    *outer, channels, height, width = extents_of(op.arg_types[0])
    require(isinstance(channels, int), "the number of channels is symbolic")
    assert isinstance(channels, int)
    count, rank = channels // factor**2, len(outer)
    apart = emission.reshape_to(data, [*outer, count, factor, factor, height, width])
    behind = [3, 1, 4, 2]
    order = [*range(rank + 1), *(rank + place for place in behind)]
    moved = emission.node("Transpose", apart, perm=order)
    return emission.reshape_to(moved, extents_of(op.out_type))


@converter("relax.meshgrid")
def _meshgrid(emission: Emission, op: OpView) -> tuple[str, ...]:
    vectors = emission.operands(op.args[0])
    require(op.attrs["indexing"] in (None, "ij"), "grids whose type differs from what TVM computes")
    grids = []
    for place, field in enumerate(expect(tvm.ir.TupleType, op.out_type).fields):
        shape = [1] * len(vectors)
        shape[place] = -1
        line = emission.node("Reshape", vectors[place], emission.ints(shape))
        grids.append(emission.node("Expand", line, emission.shape(extents_of(field))))
    return tuple(grids)
