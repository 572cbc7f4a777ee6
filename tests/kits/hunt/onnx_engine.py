"""Runs a graph as ONNX of the onnxruntime or the tensorrt backend, on ONNX Runtime in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import tvm
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from tvm import relax

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnxruntime.repairs import crashing_rewrites, repair
from annotated_region.backends.onnxruntime.rules import DIALECT as ONNXRUNTIME
from annotated_region.backends.onnxruntime.session import EXACT, INEXACT_REWRITES
from annotated_region.backends.tensorrt.rules import DIALECT as TENSORRT
from kits.hunt.engines import LeftOutError
from kits.hunt.partitioned_engine import PartitionedEngine, Result

__all__ = ["build_onnxruntime", "build_tensorrt"]


def build_onnxruntime(mod: tvm.IRModule) -> PartitionedEngine:
    """A graph on ONNX Runtime."""
    return PartitionedEngine(
        ar.partition(mod, ["onnxruntime"]), lambda func, names: _Region(func, ONNXRUNTIME, names)
    )


def build_tensorrt(mod: tvm.IRModule) -> PartitionedEngine:
    """The ONNX that TensorRT would get, on ONNX Runtime."""
    partitioned = ar.partition(mod, ["tensorrt"], cross_compile=True)
    return PartitionedEngine(partitioned, lambda func, names: _Region(func, TENSORRT, names))


class _Region:
    """A session."""

    def __init__(self, func: relax.Function, dialect: Dialect, names: Mapping[Any, str]) -> None:
        model = emit(func, dialect, names)
        repair(model.graph)
        self._inputs = [port.name for port in model.inputs]
        self._outputs = [port.name for port in model.outputs]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        for name, value in EXACT.items():
            options.add_session_config_entry(name, value)
        content = model.complete().SerializeToString()
        self._session = onnxruntime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=[*INEXACT_REWRITES, *crashing_rewrites(model.graph)],
        )

    def __call__(self, arguments: Sequence[Any], results: Sequence[Result]) -> list[np.ndarray]:
        given = {
            name: np.asarray(argument, order="C")
            for name, argument in zip(self._inputs, arguments, strict=True)
        }
        made = self._made(given)
        for array, (shape, _dtype) in zip(made, results, strict=True):
            assert array.shape == shape, f"ONNX Runtime gives {array.shape} instead of {shape}"
        return made

    def _made(self, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            made: list[np.ndarray] = self._session.run(self._outputs, given)
        except Fail as error:
            if "Only N can be zero" not in str(error):
                raise
            raise LeftOutError("ONNX Runtime pools no image without pixels") from error
        return made
