"""Values without operands, and triangles of matrices."""

from __future__ import annotations

import numpy as np
from tvm import relax, tirx

from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of, literal
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []


def _filled(emission: Emission, op: OpView, value: float) -> str:
    dtype = str(op.out_tensor.dtype)
    plain = "float32" if dtype == "bfloat16" else dtype
    shape = emission.shape(extents_of(op.out_type))
    made = emission.node("ConstantOfShape", shape, value=np.array([value], plain))
    return emission.cast(made, dtype)


@converter("relax.zeros", "relax.zeros_like")
def _zeros(emission: Emission, op: OpView) -> str:
    return _filled(emission, op, 0)


@converter("relax.ones", "relax.ones_like")
def _ones(emission: Emission, op: OpView) -> str:
    return _filled(emission, op, 1)


@converter("relax.full", "relax.full_like")
def _full(emission: Emission, op: OpView) -> str:
    value = emission.cast(emission.operand(op.args[1]), str(op.out_tensor.dtype))
    return emission.node("Expand", value, emission.shape(extents_of(op.out_type)))


@converter("relax.arange")
def _arange(emission: Emission, op: OpView) -> str:
    dtype = str(op.out_tensor.dtype)
    if all(isinstance(argument, tirx.IntImm | tirx.FloatImm) for argument in op.args):
        values = np.arange(*map(literal, op.args)).astype("float32" if dtype == "bfloat16" else dtype)
        require(bool(values.size), "an empty range")
        return emission.cast(emission.node("Identity", emission.graph.constant(values)), dtype)
    require("int" in dtype, "a symbolic range of floats")
    bounds = [
        emission.node("Squeeze", emission.extent(_bound(argument)), emission.ints([0]))
        for argument in op.args
    ]
    return emission.cast(emission.node("Range", *bounds), dtype)


def _bound(value: relax.Expr) -> relax.Expr:
    require(not isinstance(value, tirx.FloatImm), "a symbolic range of floats")
    return value


@converter("relax.eye", "relax.eye_like")
def _eye(emission: Emission, op: OpView) -> str:
    """True where the row index plus the diagonal equals the column index."""
    rows, columns = extents_of(op.out_type)
    place = 1 if op.name == "relax.eye_like" else 2
    diagonal = literal(op.args[place]) if len(op.args) > place else 0
    across = [_counted(emission, extent) for extent in (rows, columns)]
    down = emission.node("Unsqueeze", across[0], emission.ints([1]))
    moved = emission.node("Add", down, emission.number(int(diagonal), "int64"))
    return emission.cast(emission.node("Equal", moved, across[1]), str(op.out_tensor.dtype))


def _counted(emission: Emission, extent: Dim) -> str:
    end = emission.node("Squeeze", emission.extent(extent), emission.ints([0]))
    return emission.node("Range", emission.number(0, "int64"), end, emission.number(1, "int64"))


@converter("relax.hamming_window")
def _hamming_window(emission: Emission, op: OpView) -> str:
    size, periodic, alpha, beta = map(literal, op.args)
    dtype = str(op.out_tensor.dtype)
    whole = size if periodic else size - 1
    require(size > 0 and whole > 0, "a window of one element")
    values = alpha - beta * np.cos(2 * np.pi * np.arange(int(size)) / whole)
    plain = values.astype("float32" if dtype == "bfloat16" else dtype)
    return emission.cast(emission.node("Identity", emission.graph.constant(plain)), dtype)


@converter("relax.triu", "relax.tril")
def _triangle(emission: Emission, op: OpView) -> str:
    diagonal = emission.number(literal(op.args[1]), "int64")
    return emission.node("Trilu", emission.operand(op.args[0]), diagonal, upper=int(op.name == "relax.triu"))
