"""Matrix products, and sums of products in Einstein notation."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []


@converter("relax.matmul")
def _matmul(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    require(emission.dtype(left) == emission.dtype(right), "the operands have different data types")
    require(emission.dtype(left) == str(op.out_tensor.dtype), f"the result has type {op.out_tensor.dtype}")
    return emission.node("MatMul", left, right)


@converter("relax.einsum")
def _einsum(emission: Emission, op: OpView) -> str:
    return emission.node("Einsum", *emission.operands(op.args[0]), equation=op.attrs["subscripts"])


@converter("relax.outer")
def _outer(emission: Emission, op: OpView) -> str:
    left, right = (emission.operand(argument) for argument in op.args)
    column = emission.node("Unsqueeze", left, emission.ints([1]))
    return emission.node("Mul", column, emission.node("Unsqueeze", right, emission.ints([0])))
