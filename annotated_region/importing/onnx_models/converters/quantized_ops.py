"""Operators of the QOperator format: the op on floats between `dequantize` and `quantize`.

    QLinearConv(x, w)   becomes   quantize(conv2d(dequantize(x), dequantize(w)) + dequantize(bias))

This is ONNX Runtime's QDQ format, which targets match. Sums of float32 are exact up to 2^24, so the result is
equal to ONNX Runtime's, or off by one quantum if a quotient is within rounding of a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.quantization import (
    BYTES,
    dequantized,
    parameters,
    product_of,
    quantized,
)
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.importing.onnx_models.converters.windows import (
    WINDOWS,
    window_attributes,
    with_known_channels,
)

__all__: list[str] = []


def _dtype(node: OnnxNode, position: int = 0) -> str:
    return dtype_of(node.tensor(position, BYTES))


def _result_dtype(node: OnnxNode, zero_at: int) -> str:
    """The type of a result is that of its zero point."""
    return dtype_of(node.tensor(zero_at, BYTES))


@converts("", "QLinearConv", (8, 9), f"{WINDOWS} group")
@converts(CONTRIBUTED, "QLinearConv", (8, 9), f"{WINDOWS} group channels_last")
def _convolution(node: OnnxNode) -> relax.Expr:
    """Weights may have a scale per channel; the bias is int32 in units of the product of both scales."""
    node.integer("channels_last", 0, 0, 0)
    bias = None
    if node.has(8):
        channels = node.fixed_shape(3, node.tensor(3, BYTES, (3, 4, 5)))[0]
        bias = _bias(node, 8, channels)
    attributes = window_attributes(node) | {"group": node.integer("group", 1, 1)}
    data = node.typed(dequantized(node, 0))
    node.require(rank_of(data) in (3, 4, 5), f"has an input 0 of rank {rank_of(data)}; known are 3, 4, 5")
    kernel = node.typed(dequantized(node, 3, axis=0))
    sums = node.standard("Conv", [with_known_channels(node, data, kernel), kernel, bias], attributes)
    return quantized(node, sums, 6, _result_dtype(node, 7))


def _bias(node: OnnxNode, position: int, channels: int) -> relax.Expr:
    """The floats of an int32 bias in units of the product of the scales at positions 1 and 4."""
    bias = node.vector(position, ("int32",), channels)
    data_scale, _ = parameters(node, 1, 2, _dtype(node), None)
    weight_scale, _ = parameters(node, 4, 5, _dtype(node, 3), channels)
    scale = product_of(node, data_scale, weight_scale)
    return node.typed(relax.op.dequantize(bias, scale, relax.const(0, "int32"), axis=0, out_dtype="float32"))


@converts("", "QLinearMatMul", (8, 8))
def _product(node: OnnxNode) -> relax.Expr:
    """The left operand may have a scale per row, the right one per column."""
    left, right = node.tensor(0, BYTES), node.tensor(3, BYTES)
    rows = rank_of(left) - 2 if rank_of(left) > 1 else None
    columns = rank_of(right) - 1 if rank_of(right) > 1 else None
    sums = relax.op.matmul(dequantized(node, 0, rows), dequantized(node, 3, columns))
    return quantized(node, sums, 6, _result_dtype(node, 7))


@converts(CONTRIBUTED, "QGemm", (6, 9), "transA transB alpha")
def _gemm(node: OnnxNode) -> relax.Expr:
    """Without an output scale, the result is float."""
    node.tensor(0, BYTES, (2,))
    columns = node.fixed_shape(3, node.tensor(3, BYTES, (2,)))
    transposes = [bool(node.integer(name, 0, 0, 1)) for name in ("transA", "transB")]
    alpha = node.number("alpha", 1.0)
    axis = 0 if transposes[1] else 1
    left, right = dequantized(node, 0), dequantized(node, 3, axis)
    sides = [
        relax.op.permute_dims(side, [1, 0]) if transposed else side
        for side, transposed in zip((left, right), transposes, strict=True)
    ]
    sums = relax.op.matmul(*sides)
    if node.has(6):
        bias = _gemm_bias(node, columns[axis])
        sums = relax.op.add(sums, bias)
    if alpha != 1:
        sums = relax.op.multiply(sums, relax.const(alpha, "float32"))
    return quantized(node, sums, 7, _result_dtype(node, 8)) if node.has(7) else sums


def _gemm_bias(node: OnnxNode, columns: int) -> relax.Expr:
    bias = node.tensor(6, ("int32",), (1, 2))
    node.require(
        rank_of(bias) == 1 or node.shape(bias)[0] == 1, "has a bias of several rows, which is not supported"
    )
    flat = bias if rank_of(bias) == 1 else node.typed(relax.op.squeeze(bias, [0]))
    node.require_shape(6, flat, (columns,))
    scale = product_of(
        node,
        parameters(node, 1, 2, _dtype(node), None)[0],
        parameters(node, 4, 5, _dtype(node, 3), columns)[0],
    )
    return relax.op.dequantize(flat, scale, relax.const(0, "int32"), axis=0, out_dtype="float32")


def _binary(op: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Callable[[OnnxNode], relax.Expr]:
    def convert(node: OnnxNode) -> relax.Expr:
        return quantized(node, op(dequantized(node, 0), dequantized(node, 3)), 6, _dtype(node))

    return convert


converts(CONTRIBUTED, "QLinearAdd", (7, 8))(_binary(relax.op.add))
converts(CONTRIBUTED, "QLinearMul", (7, 8))(_binary(relax.op.multiply))


@converts(CONTRIBUTED, "QLinearConcat", (5, 3 * 2**16), "axis")
def _concatenation(node: OnnxNode) -> relax.Expr:
    """The scale of the result is first, followed by three inputs for each part."""
    node.require((len(node.inputs) - 2) % 3 == 0, "has inputs that are not triples (part, scale, zero point)")
    parts = [dequantized(node, position) for position in range(2, len(node.inputs), 3)]
    rank = rank_of(node.tensor(2))
    axis = node.integer("axis", None, -rank, rank - 1)
    return quantized(node, relax.op.concat(parts, axis), 0, _result_dtype(node, 1))


@converts(CONTRIBUTED, "QLinearWhere", (9, 9))
def _choice(node: OnnxNode) -> relax.Expr:
    chosen = relax.op.where(node.tensor(0, ("bool",)), dequantized(node, 1), dequantized(node, 4))
    return quantized(node, chosen, 7, _dtype(node, 1))


def _unary(
    op: str, attributes: Callable[[OnnxNode], Mapping[str, object]]
) -> Callable[[OnnxNode], relax.Expr]:
    """An op of the default domain, computed on floats."""

    def convert(node: OnnxNode) -> relax.Expr:
        node.integer("channels_last", 0, 0, 0)
        floats = node.standard(op, [node.typed(dequantized(node, 0))], attributes(node))
        return quantized(node, floats, 3, _dtype(node))

    return convert


def _axis_of_softmax(node: OnnxNode) -> Mapping[str, object]:
    """Before opset 13 all axes after the first were flattened; only the last axis means the same in both."""
    rank = rank_of(node.tensor(0))
    axis = node.integer("axis", -1, -rank, rank - 1)
    opset = node.integer("opset")
    node.require(
        opset >= 13 or axis in (-1, rank - 1),
        f"has the attribute 'opset' of {opset}, where an axis that is not the last has another meaning",
    )
    return {"axis": axis}


def _window_of_pool(node: OnnxNode) -> Mapping[str, object]:
    return window_attributes(node) | {
        "ceil_mode": node.integer("ceil_mode", 0, 0, 0),
        "count_include_pad": node.integer("count_include_pad", 0, 0, 1),
    }


def _none(_node: OnnxNode) -> Mapping[str, object]:
    return {}


converts(CONTRIBUTED, "QLinearSigmoid", (4, 5))(_unary("Sigmoid", _none))
converts(CONTRIBUTED, "QLinearLeakyRelu", (4, 5), "alpha")(
    _unary("LeakyRelu", lambda node: {"alpha": node.number("alpha", 0.01)})
)
converts(CONTRIBUTED, "QLinearSoftmax", (5, 5), "axis opset")(_unary("Softmax", _axis_of_softmax))
converts(CONTRIBUTED, "QLinearGlobalAveragePool", (5, 5), "channels_last")(_unary("GlobalAveragePool", _none))
converts(CONTRIBUTED, "QLinearAveragePool", (4, 5), f"{WINDOWS} ceil_mode count_include_pad channels_last")(
    _unary("AveragePool", _window_of_pool)
)
