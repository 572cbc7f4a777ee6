"""Gathers, scatters and slices by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of, literal
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

_REDUCTIONS = {"update": None, "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _indices(emission: Emission, op: OpView, position: int) -> str:
    indices = emission.operand(op.args[position])
    require("int" in emission.dtype(indices), f"the indices are of type {emission.dtype(indices)}")
    return indices if emission.dtype(indices) == "int32" else emission.cast(indices, "int64")


@converter("relax.take")
def _take(emission: Emission, op: OpView) -> str:
    data, indices = emission.operand(op.args[0]), _indices(emission, op, 1)
    extents, axis = extents_of(op.arg_types[0]), op.attrs["axis"]
    if axis is None:
        require(len(extents) == 1, "the axis is omitted")
        axis = 0
    return emission.node("Gather", data, _inside(emission, op, indices, extents[axis]), axis=axis)


def _is_at_an_end(indices: relax.Expr) -> bool:
    """Whether all indices are 0 or -1, which ``Gather`` treats as the mode ``wrap`` does: first and last."""
    if not isinstance(indices, Constant):
        return False
    return bool(np.isin(indices.value.numpy(), (0, -1)).all())


def _inside(emission: Emission, op: OpView, indices: str, extent: object) -> str:
    """The indices brought into range according to the mode; ``fast`` guarantees that they are in range."""
    mode, like = op.attrs["mode"], emission.dtype(indices)
    if mode == "fast" or (mode == "wrap" and _is_at_an_end(op.args[1])):
        return indices
    require(isinstance(extent, int), "a symbolic extent with a mode for indices out of range")
    assert isinstance(extent, int)
    if mode == "wrap":
        return emission.node("Mod", indices, emission.number(extent, like))
    if mode != "clip":
        raise Declined(f"the mode {mode} for indices out of range")
    lowest = emission.node("Max", indices, emission.number(0, like))
    return emission.node("Min", lowest, emission.number(extent - 1, like))


@converter("relax.gather_elements")
def _gather_elements(emission: Emission, op: OpView) -> str:
    indices = _indices(emission, op, 1)
    return emission.node("GatherElements", emission.operand(op.args[0]), indices, axis=op.attrs["axis"])


@converter("relax.gather_nd")
def _gather_nd(emission: Emission, op: OpView) -> str:
    indices = emission.cast(_indices(emission, op, 1), "int64")
    return emission.node(
        "GatherND", emission.operand(op.args[0]), indices, batch_dims=int(op.attrs["batch_dims"])
    )


@converter("relax.index_tensor")
def _index_tensor(emission: Emission, op: OpView) -> str:
    """Positions in the first axes: one index tensor per axis, broadcast to a common shape."""
    data, parts = emission.operand(op.args[0]), emission.operands(op.args[1])
    if len(parts) == 1:
        return emission.node("Gather", data, _integers(emission, parts[0]), axis=0)
    rest = len(extents_of(op.arg_types[0])) - len(parts)
    shape = extents_of(op.out_type)
    return emission.node("GatherND", data, _places(emission, parts, shape[: len(shape) - rest]))


@converter("relax.index_put")
def _index_put(emission: Emission, op: OpView) -> str:
    """Writes or adds values at positions, which must have an index in each axis."""
    data, values = emission.operand(op.args[0]), emission.operand(op.args[2])
    parts = emission.operands(op.args[1])
    require(len(parts) == len(extents_of(op.arg_types[0])), "positions in only some of the axes")
    indices = expect(tvm.ir.TupleType, op.arg_types[1]).fields if _is_tuple(op, 1) else (op.arg_types[1],)
    shapes = [extents_of(each) for each in indices]
    numbers = [tuple(extent for extent in shape if isinstance(extent, int)) for shape in shapes]
    if list(map(len, numbers)) != list(map(len, shapes)):
        raise Declined("positions of a symbolic shape")
    shape = np.broadcast_shapes(*numbers)
    updates = emission.node("Reshape", values, emission.ints(shape))
    reduction = "add" if op.attrs["accumulate"] else None
    return emission.node("ScatterND", data, _places(emission, parts, shape), updates, reduction=reduction)


def _is_tuple(op: OpView, position: int) -> bool:
    return isinstance(op.arg_types[position], tvm.ir.TupleType)


def _integers(emission: Emission, name: str) -> str:
    require("int" in emission.dtype(name), f"the indices are of type {emission.dtype(name)}")
    return emission.cast(name, "int64")


def _places(emission: Emission, parts: Sequence[str], shape: Sequence[Dim]) -> str:
    """Positions as index tuples in a new last axis."""
    behind, whole = emission.ints([len(shape)]), emission.shape(shape)
    columns = [
        emission.node("Unsqueeze", emission.node("Expand", _integers(emission, part), whole), behind)
        for part in parts
    ]
    return emission.node("Concat", *columns, axis=len(shape))


@converter("relax.slice_scatter")
def _slice_scatter(emission: Emission, op: OpView) -> str:
    """The concatenation of the data before the slice, the new values, and the data after it."""
    data, source = (emission.operand(argument) for argument in op.args[:2])
    begin, end, step = (literal(argument) for argument in op.args[2:5])
    axis = op.attrs["axis"] % len(extents_of(op.arg_types[0]))
    extent = extents_of(op.arg_types[0])[axis]
    if not isinstance(extent, int):
        raise Declined("a slice of a symbolic extent")
    require(step == 1 and 0 <= begin < end <= extent, f"the slice {begin}:{end}:{step} of {extent}")
    parts = [source]
    if begin > 0:
        parts.insert(0, _cut(emission, data, axis, (0, int(begin))))
    if end < extent:
        parts.append(_cut(emission, data, axis, (int(end), extent)))
    return emission.node("Concat", *parts, axis=axis)


def _cut(emission: Emission, data: str, axis: int, limits: tuple[int, int]) -> str:
    return emission.node("Slice", data, *(emission.ints([value]) for value in (*limits, axis)))


@converter("relax.reverse_sequence")
def _reverse_sequence(emission: Emission, op: OpView) -> str:
    data, lengths = emission.operand(op.args[0]), _indices(emission, op, 1)
    time, batch = op.attrs["seq_axis"], op.attrs["batch_axis"]
    require({time, batch} == {0, 1}, f"sequences along axis {time}, batches along axis {batch}")
    lengths = emission.cast(lengths, "int64")
    return emission.node("ReverseSequence", data, lengths, time_axis=time, batch_axis=batch)


def _reduction(emission: Emission, op: OpView) -> str | None:
    name = op.attrs["reduction"]
    if name not in _REDUCTIONS:
        raise Declined(f"the reduction {name}")
    require(name in ("update", "add", "mul") or emission.opset >= 18, f"the reduction {name} in this opset")
    return _REDUCTIONS[name]


@converter("relax.scatter_elements")
def _scatter_elements(emission: Emission, op: OpView) -> str:
    data, updates = emission.operand(op.args[0]), emission.operand(op.args[2])
    indices, reduction = _indices(emission, op, 1), _reduction(emission, op)
    return emission.node(
        "ScatterElements", data, indices, updates, axis=op.attrs["axis"], reduction=reduction
    )


@converter("relax.scatter_nd")
def _scatter_nd(emission: Emission, op: OpView) -> str:
    data, updates = emission.operand(op.args[0]), emission.operand(op.args[2])
    indices = emission.cast(_indices(emission, op, 1), "int64")
    return emission.node("ScatterND", data, indices, updates, reduction=_reduction(emission, op))


@converter("relax.one_hot")
def _one_hot(emission: Emission, op: OpView) -> str:
    """Negative indices select nothing; those of ONNX count from the end, and have at least one axis."""
    dtype, depth = str(op.out_tensor.dtype), emission.number(int(op.attrs["depth"]), "int64")
    kind = "int64" if "int" in dtype else "float32"
    numbers = [literal(argument) for argument in op.args[1:]]
    require(dtype != "float64" or numbers == [np.float32(each) for each in numbers], "numbers of float64")
    at = emission.ints([0])
    on, off = (emission.node("Unsqueeze", emission.number(each, kind), at) for each in numbers)
    indices = emission.cast(_indices(emission, op, 0), "int64")
    is_negative = emission.node("Less", indices, emission.number(0, "int64"))
    places = emission.node("Where", is_negative, depth, indices)
    values = emission.node("Concat", off, on, axis=0)
    if extents_of(op.arg_types[0]):
        return emission.cast(emission.node("OneHot", places, depth, values, axis=op.attrs["axis"]), dtype)
    row = emission.node("OneHot", emission.node("Unsqueeze", places, at), depth, values, axis=1)
    return emission.cast(emission.node("Squeeze", row, at), dtype)
