"""The rules of OpenVINO: it claims every op whose ONNX operators its CPU plugin computes correctly."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter import converted_ops
from annotated_region.backends.openvino.kernels import DIALECT, TARGET
from annotated_region.backends.openvino.support import refusal
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["DIALECT", "TARGET", "register_rules"]


def _rule(op: OpView) -> bool | str:
    return refusal(op) or True


def register_rules() -> None:
    """Register a rule for every op with a converter."""
    for name in converted_ops():
        register_rule(TARGET, name)(_rule)
