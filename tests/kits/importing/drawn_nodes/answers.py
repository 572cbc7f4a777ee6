"""What ONNX Runtime answers without its optimizer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as states

__all__ = ["answers_of"]

REFUSALS = (
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.NotImplemented,
    states.RuntimeException,
)


def answers_of(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """The results of a model; None if ONNX Runtime refuses it. `feeds` may have more than its inputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, {port.name: feeds[port.name] for port in session.get_inputs()}))
    except REFUSALS:
        return None
