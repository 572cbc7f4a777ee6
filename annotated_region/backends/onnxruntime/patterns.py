"""Patterns of composites that ONNX Runtime fuses on CPUs, and of ops that are claimed only together."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter import (
    register_integer_convolutions,
    register_recurrent_layers,
    register_shape_pattern,
    trial,
)
from annotated_region.backends.onnx_emitter.fused_patterns import register_fused_patterns
from annotated_region.backends.onnxruntime.rules import DIALECT, TARGET

__all__ = ["register_patterns"]


def register_patterns() -> None:
    """Register all patterns."""
    register_fused_patterns(TARGET, lambda view: trial(view, DIALECT))
    register_shape_pattern(DIALECT)
    register_integer_convolutions(DIALECT)
    register_recurrent_layers(DIALECT)
