"""`FusedConv` and `FusedGemm` of ONNX Runtime's optimizer: an op of the default domain with an activation."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.importing.onnx_models.converters.windows import (
    WINDOWS,
    window_attributes,
    with_known_channels,
)

__all__: list[str] = []

_PLAIN = {"Relu": relax.op.nn.relu, "Sigmoid": relax.op.sigmoid, "Tanh": relax.op.tanh}


@converts(CONTRIBUTED, "FusedConv", (2, 4), f"{WINDOWS} group activation activation_params")
def _convolution(node: OnnxNode) -> relax.Expr:
    """The fourth input is added before the activation."""
    data, kernel = (node.tensor(position, FLOATS, (3, 4, 5)) for position in (0, 1))
    operands = [with_known_channels(node, data, kernel), kernel, node.optional(2, FLOATS, (1,))]
    attributes = window_attributes(node) | {"group": node.integer("group", 1, 1)}
    sums = node.standard("Conv", operands, attributes)
    if node.has(3):
        sums = relax.op.add(sums, node.tensor(3, FLOATS, (3, 4, 5)))
    return _activated(node, sums, node.numbers("activation_params"))


@converts(
    CONTRIBUTED,
    "FusedGemm",
    (2, 3),
    "alpha beta transA transB activation activation_alpha activation_beta activation_gamma",
)
def _gemm(node: OnnxNode) -> relax.Expr:
    operands = [
        node.tensor(0, FLOATS, (2,)),
        node.tensor(1, FLOATS, (2,)),
        node.optional(2, FLOATS, (0, 1, 2)),
    ]
    attributes: dict[str, object] = {name: node.number(name, 1.0) for name in ("alpha", "beta")}
    attributes |= {name: node.integer(name, 0, 0, 1) for name in ("transA", "transB")}
    given = [node.number(f"activation_{name}", 0.0) for name in ("alpha", "beta", "gamma")]
    return _activated(node, node.standard("Gemm", operands, attributes), given)


def _activated(node: OnnxNode, expr: relax.Expr, given: Sequence[float]) -> relax.Expr:
    name = node.text("activation", "")
    match name, list(given):
        case "", _:
            return expr
        case (("Relu" | "Sigmoid" | "Tanh"), _):
            return _PLAIN[name](expr)
        case "LeakyRelu", [slope, *_]:
            return relax.op.nn.leakyrelu(expr, slope)
        case "Clip", [least, most, *_]:
            return relax.op.clip(expr, least, most)
        case "HardSigmoid", [slope, shift, *_]:
            return node.standard("HardSigmoid", [expr], {"alpha": slope, "beta": shift})
    raise node.declined(
        f"has the attribute 'activation' of {name!r} with {list(given)}, which is not supported"
    )
