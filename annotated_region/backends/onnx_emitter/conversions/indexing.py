"""Reading and writing by index."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.emission import Emission, extents_of, literal
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require

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
    require(axis is not None or len(extents) == 1, "the axis is not given")
    axis = 0 if axis is None else axis
    return emission.node("Gather", data, _inside(emission, op, indices, extents[axis]), axis=axis)


def _inside(emission: Emission, op: OpView, indices: str, extent: object) -> str:
    """The indices brought into range as the mode says; ``fast`` promises that they are."""
    mode, like = op.attrs["mode"], emission.dtype(indices)
    if mode == "fast":
        return indices
    require(isinstance(extent, int), "indices are brought into a symbolic range")
    assert isinstance(extent, int)
    if mode == "wrap":
        return emission.node("Mod", indices, emission.number(extent, like))
    if mode != "clip":
        raise Declined(f"the mode {mode} of what is out of range")
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
    on, off = (emission.number(literal(argument), "float32") for argument in op.args[1:])
    at = emission.ints([0])
    values = emission.node(
        "Concat", emission.node("Unsqueeze", off, at), emission.node("Unsqueeze", on, at), axis=0
    )
    depth = emission.number(int(op.attrs["depth"]), "int64")
    indices = emission.cast(_indices(emission, op, 0), "int64")
    made = emission.node("OneHot", indices, depth, values, axis=op.attrs["axis"])
    return emission.cast(made, str(op.out_tensor.dtype))
