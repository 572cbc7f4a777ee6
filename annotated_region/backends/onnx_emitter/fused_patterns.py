"""Patterns of composites that CPU engines fuse, so that cost models measure the fused operator.

Code generators do not need them: the model of a region has single operators, and the engine fuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern

__all__ = ["register_fused_patterns"]

_ACTIVATIONS = {"relu": "relax.nn.relu", "sigmoid": "relax.sigmoid", "tanh": "relax.tanh"}


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


def register_fused_patterns(target: str, refusal: Callable[[OpView], str | None]) -> None:
    """Register all patterns.

    Parameters
    ----------
    target
        The name of the target, which is the prefix of the composites' names.
    refusal
        Why the target does not support an op alone, or None: it must support each op of a match.
    """

    def check(context: PatternCheckContext) -> bool | str:
        for value in context.matched_bindings.values():
            view = OpView.of(value)
            reason = "a call to a function, not an op" if view is None else refusal(view)
            if reason:
                return reason
        return True

    for name, pattern in _patterns():
        register_pattern(target, f"{target}.{name}", pattern, check)
