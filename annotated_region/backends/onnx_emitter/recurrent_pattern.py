"""Recurrent layers: claimed with the product that makes their gates, which ONNX's operators compute."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.emission import trial_of_match
from annotated_region.recurrent_loops.op import LOOP
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern
from annotated_region.tvm_adapter.types import expect

__all__ = ["register_recurrent_layers"]

_FEWEST, _MOST = 3, 6
"""The operands of a loop: gates, weight, what it has of bias, peepholes and lengths, one or two states."""


def register_recurrent_layers(dialect: Dialect) -> None:
    """Register ``recurrent.loop(add(matmul(x, W), b), R, ...)`` as ``<target>.recurrent_layer``."""

    def check(context: PatternCheckContext) -> bool | str:
        call = expect(relax.Call, context.matched_expr)
        view = OpView.of(call)
        if view is None:
            return "no op"
        inner = {var: value for var, value in context.matched_bindings.items() if not value.same_as(call)}
        return trial_of_match(view, inner, dialect) or True

    for pattern in _patterns():
        register_pattern(dialect.target, f"{dialect.target}.recurrent_layer", pattern, check)


def _patterns() -> Iterator[DFPattern]:
    product = is_op("relax.matmul")(wildcard(), is_const())
    for gates in (is_op("relax.add")(product, is_const()), product):
        for count in range(_FEWEST, _MOST + 1):
            yield is_op(LOOP)(gates, is_const(), *(wildcard() for _ in range(count - 2)))
