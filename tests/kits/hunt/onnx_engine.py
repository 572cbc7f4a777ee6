"""Runs a graph as ONNX of the onnxruntime or the tensorrt backend, on ONNX Runtime in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
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
from kits.hunt.engines import Engine, LeftOutError
from kits.hunt.near_ties import has_near_tie
from kits.hunt.partitioned_engine import PartitionedEngine, Result

__all__ = ["build_onnxruntime", "build_tensorrt"]


TIE = 1e-6
"""Of a step: float32 computes the places of small numbers as exactly."""


def build_onnxruntime(mod: tvm.IRModule) -> Engine:
    """A graph on ONNX Runtime; if it adds 8-bit numbers, not in calls with a tie of a quantization."""
    engine = PartitionedEngine(
        ar.partition(mod, ["onnxruntime"]), lambda func, names: _Region(func, ONNXRUNTIME, names)
    )
    return partial(_computed, engine, mod) if _adds_bytes(mod["main"]) else engine


def _computed(engine: Engine, mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    if has_near_tie(mod, inputs, TIE):
        raise LeftOutError("ONNX Runtime adds a zero point before it rounds a sum of 8-bit numbers")
    return engine(inputs)


def _adds_bytes(func: relax.Function) -> bool:
    """Whether a sum of two dequantized tensors is quantized, which ONNX Runtime computes as one operator.

    A ReLU between is none for it where zero is the least of the bytes.
    """
    bound = relax.analysis.get_var2val(func)

    def made_by(name: str, expr: relax.Expr) -> relax.Call | None:
        value = bound[expr] if isinstance(expr, relax.Var) and expr in bound else None
        is_made = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) and value.op.name == name
        return value if is_made else None

    quantized = [call for call in (made_by("relax.quantize", each) for each in bound) if call is not None]
    functions = [(call, made_by("relax.nn.relu", call.args[0])) for call in quantized]
    data = [call.args[0] if function is None else function.args[0] for call, function in functions]
    sums = [made_by("relax.add", each) for each in data]
    return any(
        each is not None and all(made_by("relax.dequantize", part) is not None for part in each.args)
        for each in sums
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
