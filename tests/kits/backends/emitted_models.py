"""Emitted models run on ONNX Runtime, with seeded numbers."""

from __future__ import annotations

import numpy as np
import onnxruntime

from annotated_region.backends.onnx_emitter import EmittedModel

__all__ = ["array", "run"]


def array(*shape: int, seed: int = 3) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def run(model: EmittedModel, *arrays: np.ndarray) -> list[np.ndarray]:
    """What ONNX Runtime computes with a model."""
    session = onnxruntime.InferenceSession(model.complete().SerializeToString())
    return list(session.run(None, dict(zip((port.name for port in model.inputs), arrays, strict=True))))
