"""Patterns of composites that OpenVINO's CPU plugin fuses, and of ops that are claimed only in pairs."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter import register_recurrent_layers, register_shape_pattern
from annotated_region.backends.onnx_emitter.fused_patterns import register_fused_patterns
from annotated_region.backends.openvino.rules import DIALECT, TARGET
from annotated_region.backends.openvino.support import refusal

__all__ = ["register_patterns"]


def register_patterns() -> None:
    """Register all patterns."""
    register_fused_patterns(TARGET, refusal)
    register_shape_pattern(DIALECT)
    register_recurrent_layers(DIALECT)
