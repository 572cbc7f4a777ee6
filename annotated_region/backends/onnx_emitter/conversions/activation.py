"""Activations that need several operators, or have parameters."""

from __future__ import annotations

import math

import numpy as np

from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []

GELU_OPSET = 20
# Above this threshold, softplus(x) and x are equal in float32.
_LEAST_THRESHOLD = 17.0


@converter("relax.nn.gelu")
def _gelu(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    if emission.opset >= GELU_OPSET:
        return emission.node("Gelu", data)
    error = emission.node("Erf", emission.node("Div", data, emission.like(math.sqrt(2), data)))
    whole = emission.node("Mul", data, emission.node("Add", error, emission.like(1.0, data)))
    return emission.node("Mul", whole, emission.like(0.5, data))


@converter("relax.nn.gelu_tanh")
def _gelu_tanh(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    if emission.opset >= GELU_OPSET:
        return emission.node("Gelu", data, approximate="tanh")
    cube = emission.node("Mul", data, emission.node("Mul", data, data))
    inner = emission.node("Add", data, emission.node("Mul", cube, emission.like(0.044715, data)))
    scaled = emission.node("Mul", inner, emission.like(math.sqrt(2 / math.pi), data))
    factor = emission.node("Add", emission.node("Tanh", scaled), emission.like(1.0, data))
    return emission.node("Mul", emission.node("Mul", data, factor), emission.like(0.5, data))


@converter("relax.nn.silu")
def _silu(emission: Emission, op: OpView) -> str:
    data = emission.operand(op.args[0])
    return emission.node("Mul", data, emission.node("Sigmoid", data))


@converter("relax.nn.leakyrelu")
def _leaky_relu(emission: Emission, op: OpView) -> str:
    alpha = float(op.attrs["alpha"])
    require(math.isfinite(alpha), "the slope is not finite, and ONNX does not multiply zeros by it")
    return emission.node("LeakyRelu", emission.operand(op.args[0]), alpha=alpha)


@converter("relax.nn.prelu")
def _prelu(emission: Emission, op: OpView) -> str:
    slopes = op.constant(1)
    require(
        slopes is None or bool(np.isfinite(slopes).all()),
        "a slope is not finite, and ONNX does not multiply zeros by it",
    )
    data, slope = (emission.operand(argument) for argument in op.args)
    rank = len(extents_of(op.arg_types[0]))
    axis = op.attrs["axis"] % rank
    # With the rank of the data: OpenVINO takes a vector for slopes per channel, whatever the axis.
    shaped = emission.node(
        "Reshape", slope, emission.ints([-1 if each == axis else 1 for each in range(rank)])
    )
    return emission.node("PRelu", data, shaped)


@converter("relax.nn.selu")
def _selu(emission: Emission, op: OpView) -> str:
    return emission.node("Selu", emission.operand(op.args[0]))


@converter("relax.nn.softplus")
def _softplus(emission: Emission, op: OpView) -> str:
    data, beta = emission.operand(op.args[0]), float(op.attrs["beta"])
    require(beta != 0 and op.attrs["threshold"] >= _LEAST_THRESHOLD, "a threshold that changes the result")
    if beta == 1:
        return emission.node("Softplus", data)
    factor = emission.like(beta, data)
    return emission.node("Div", emission.node("Softplus", emission.node("Mul", data, factor)), factor)


@converter("relax.nn.softmax")
def _softmax(emission: Emission, op: OpView) -> str:
    return emission.node("Softmax", emission.operand(op.args[0]), axis=op.attrs["axis"])


@converter("relax.nn.log_softmax")
def _log_softmax(emission: Emission, op: OpView) -> str:
    return emission.node("LogSoftmax", emission.operand(op.args[0]), axis=op.attrs["axis"])


@converter("relax.nn.dropout")
def _dropout(emission: Emission, op: OpView) -> tuple[str | None, ...]:
    return emission.operand(op.args[0]), None
