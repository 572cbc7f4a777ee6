"""Composites of what ONNX Runtime fuses on CPUs, so that cost models measure the fused operator.

The code generator does not need them: a region's model holds single operators, and the session fuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.onnx_emitter import register_shape_pattern, trial
from annotated_region.backends.onnxruntime.rules import DIALECT, TARGET
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern

__all__ = ["check", "register_patterns"]

_ACTIVATIONS = {"relu": "relax.nn.relu", "sigmoid": "relax.sigmoid", "tanh": "relax.tanh"}


def check(context: PatternCheckContext) -> bool | str:
    """Each op of the match has to be one that the emitter can say."""
    for value in context.matched_bindings.values():
        view = OpView.of(value)
        reason = "a call to a function, not an op" if view is None else trial(view, DIALECT)
        if reason:
            return reason
    return True


def _patterns() -> Iterator[tuple[str, DFPattern]]:
    convolution = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    biased = is_op("relax.add")(convolution, wildcard())
    yield "conv2d_bias", biased
    for name, op in _ACTIVATIONS.items():
        yield f"conv2d_{name}", is_op(op)(convolution)
        yield f"conv2d_bias_{name}", is_op(op)(biased)
    for summed in (is_op("relax.add")(biased, wildcard()), is_op("relax.add")(wildcard(), biased)):
        yield "conv2d_bias_sum", summed
        yield "conv2d_bias_sum_relu", is_op("relax.nn.relu")(summed)
    yield "matmul_bias", is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard())


def register_patterns() -> None:
    """Register all of them."""
    for name, pattern in _patterns():
        register_pattern(TARGET, f"{TARGET}.{name}", pattern, check)
    register_shape_pattern(DIALECT)
