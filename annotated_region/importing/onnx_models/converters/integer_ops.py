"""Integer products, and the operators of ONNX Runtime's dynamic quantization."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.quantization import BYTES, one_number
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.importing.onnx_models.converters.windows import (
    WINDOWS,
    window_attributes,
    with_known_channels,
)

__all__ = ["dynamically_quantized"]


@converts("", "DynamicQuantizeLinear", (1, 1))
def _dynamic_quantization(node: OnnxNode) -> relax.Expr:
    return relax.Tuple(dynamically_quantized(node, node.tensor(0, ("float32",))))


def dynamically_quantized(node: OnnxNode, data: relax.Expr) -> list[relax.Expr]:
    """A tensor quantized to uint8, with scale and zero point for its range, which includes 0.

    For a tensor of zeros TVM divides by the scale 0; ONNX Runtime uses 1 instead.
    """
    nothing, steps = relax.const(0.0, "float32"), relax.const(255.0, "float32")
    largest = node.emit(relax.op.maximum(relax.op.max(data), nothing))
    least = node.emit(relax.op.minimum(relax.op.min(data), nothing))
    quantum = relax.op.divide(relax.op.subtract(largest, least), steps)
    scale = node.emit(relax.op.where(relax.op.equal(largest, least), relax.const(1.0, "float32"), quantum))
    shift = relax.op.clip(relax.op.subtract(nothing, relax.op.divide(least, scale)), 0, 255)
    zero = node.emit(relax.op.astype(relax.op.round(shift), "uint8"))
    return [node.emit(relax.op.quantize(data, scale, zero, axis=0, out_dtype="uint8")), scale, zero]


@converts("", "ConvInteger", (2, 4), f"{WINDOWS} group")
def _integer_convolution(node: OnnxNode) -> relax.Expr:
    """The zero point is subtracted before padding, so the padding represents the zero point."""
    data, weight = node.tensor(0, BYTES, (3, 4, 5)), node.tensor(1, BYTES, (3, 4, 5))
    channels = node.shape(weight)[0]
    attributes = window_attributes(node) | {"group": node.integer("group", 1, 1)}
    if node.has(2):
        zero = node.tensor(2, (dtype_of(data),), (0, 1))
        node.require(node.shape(zero) in ((), (1,)), "has a zero point for each part of its input")
    shape = [-1, *[1] * (rank_of(weight) - 1)]
    if node.has(3) and rank_of(node.tensor(3, (dtype_of(weight),), (0, 1))):
        node.require(node.shape(node.tensor(3)) in ((1,), (channels,)), "has zero points of another number")
    data = with_known_channels(node, data, weight)
    sides = [_shifted(node, data, 2, None), _shifted(node, weight, 3, shape)]
    return node.standard("Conv", [*map(node.typed, sides), None], attributes)


def _shifted(node: OnnxNode, data: relax.Expr, zero_at: int, shape: list[int] | None) -> relax.Expr:
    """8-bit data as int32 minus its zero point, which is scalar or reshaped."""
    wide = relax.op.astype(data, "int32")
    zero = node.optional(zero_at)
    if zero is None:
        return wide
    has_axis = shape is not None and rank_of(zero) == 1
    placed = relax.op.reshape(zero, shape) if has_axis else one_number(node, zero)
    return relax.op.subtract(wide, relax.op.astype(placed, "int32"))


@converts(CONTRIBUTED, "MatMulIntegerToFloat", (4, 7))
def _scaled_product(node: OnnxNode) -> relax.Expr:
    """An integer product with the scales of both operands and a bias."""
    left, right = node.tensor(0, BYTES), node.tensor(1, BYTES)
    factor = relax.op.multiply(node.tensor(2, ("float32",), (0, 1)), node.tensor(3, ("float32",), (0, 1)))
    zeros = [node.optional(4, BYTES, (0, 1)), node.optional(5, BYTES, (0, 1))]
    return _floats(node, [left, right, *zeros], factor, 6)


@converts(CONTRIBUTED, "DynamicQuantizeMatMul", (3, 5))
def _dynamic_product(node: OnnxNode) -> relax.Expr:
    """The left operand is quantized at run time."""
    data, scale, zero = dynamically_quantized(node, node.tensor(0, ("float32",)))
    factor = relax.op.multiply(scale, node.tensor(2, ("float32",), (0, 1)))
    return _floats(node, [data, node.tensor(1, BYTES), zero, node.optional(3, BYTES, (0, 1))], factor, 4)


def _floats(
    node: OnnxNode, operands: list[relax.Expr | None], factor: relax.Expr, bias_at: int
) -> relax.Expr:
    sums = relax.op.astype(node.standard("MatMulInteger", operands, {}), "float32")
    floats = relax.op.multiply(sums, factor)
    bias = node.optional(bias_at, ("float32",), (1,))
    return floats if bias is None else relax.op.add(floats, bias)


@converts(CONTRIBUTED, "QuantizeLinear", (2, 3), "axis")
@converts(CONTRIBUTED, "DequantizeLinear", (2, 3), "axis")
def _of_older_exports(node: OnnxNode) -> relax.Expr:
    """Operators of the default domain, from before they supported 16 bits."""
    inputs = [node.tensor(0), node.tensor(1, ("float32",), (0, 1)), node.optional(2)]
    rank = rank_of(node.tensor(0))
    axis = node.integer("axis", min(1, rank - 1), -rank, max(rank - 1, 0))
    return node.standard(node.proto.op_type, inputs, {"axis": axis})
