"""Runs a graph on OpenVINO as its backend does: prepared, partitioned, each region on one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.openvino.codegen import require_kept_constants
from annotated_region.backends.openvino.repairs.repairing import repair
from annotated_region.backends.openvino.rules import DIALECT
from annotated_region.backends.openvino.runtime import open_region
from annotated_region.errors import ArgumentError, BuildError, RegionRejectedError
from kits.dense_graphs.values import UnfitValuesError
from kits.hunt.engines import Engine, LeftOutError
from kits.hunt.near_ties import has_near_tie
from kits.hunt.partitioned_engine import PartitionedEngine, Result, poisoned
from kits.hunt.special_values import has_special_value

__all__ = ["build_openvino"]

SETTINGS = {"threads": 1, "cache": False}
TIE = 1e-3
"""Of a step: OpenVINO computes the place of a number in the range of 256, each in float32."""


def build_openvino(mod: tvm.IRModule) -> Engine:
    """A graph on OpenVINO; left out where it is refused, and in calls that it need not compute as others do.

    Those quantize close to a tie, or compute with NaN or infinity. A graph that adds a quantized convolution
    to something is left out as well: OpenVINO rounds their sum alone, which is up to a step away.
    """
    if _adds_quantized_convolution(mod):
        return partial(
            _left_out, "OpenVINO does not round a quantized convolution that it adds and quantizes"
        )
    try:
        engine = PartitionedEngine(ar.partition(mod, ["openvino"]), _Region)
    except (BuildError, RegionRejectedError) as error:
        return partial(_left_out, f"OpenVINO refuses a region, which goes elsewhere: {str(error)[-80:]}")
    return partial(_computed, engine, mod)


def _computed(engine: Engine, mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    reason = _reason_to_leave_out(mod, inputs)
    if reason is not None:
        raise LeftOutError(reason)
    return engine(inputs)


def _reason_to_leave_out(mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> str | None:
    try:
        if has_special_value(mod, inputs):
            return "OpenVINO's kernels assume finite numbers"
        if _quantizes(mod) and has_near_tie(mod, inputs, TIE):
            return "OpenVINO decides otherwise about what is almost a tie of a quantization"
    except UnfitValuesError as error:  # a quotient that is exactly a tie without the errors of OpenVINO
        return str(error)
    return None


def _adds_quantized_convolution(mod: tvm.IRModule) -> bool:
    """Whether a sum or difference has a convolution, quantized and dequantized, for an operand."""
    bindings = [
        binding
        for function in mod.functions.values()
        if isinstance(function.body, relax.SeqExpr)
        for block in function.body.blocks
        for binding in block.bindings
    ]
    made: dict[Any, Any] = {binding.var: binding.value for binding in bindings}
    sums = [value for value in made.values() if _name(value) in ("relax.add", "relax.subtract")]
    return any(_is_quantized_convolution(made, operand) for each in sums for operand in each.args)


def _is_quantized_convolution(made: Mapping[Any, Any], expr: Any) -> bool:
    """Whether an operand is a convolution, maybe with a bias and functions behind it, that was quantized."""
    for name in ("relax.dequantize", "relax.quantize"):
        expr = made.get(expr, expr)
        if _name(expr) != name:
            return False
        expr = expr.args[0]
    return _stems_from_convolution(made, expr)


def _stems_from_convolution(made: Mapping[Any, Any], expr: Any) -> bool:
    call = made.get(expr, expr)
    if _name(call).startswith("relax.nn.conv"):
        return True
    if _name(call) in ("", "relax.quantize", "relax.dequantize"):
        return False
    return any(_stems_from_convolution(made, operand) for operand in call.args)


def _name(expr: relax.Expr) -> str:
    return str(expr.op.name) if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op) else ""


def _quantizes(mod: tvm.IRModule) -> bool:
    return any(op.name == "relax.quantize" for op in _ops(mod))


def _left_out(reason: str, _inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    raise LeftOutError(reason)


def _ops(mod: tvm.IRModule) -> Iterator[tvm.ir.Op]:
    found: list[tvm.ir.Op] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            found.append(expr.op)

    for function in mod.functions.values():
        relax.analysis.post_order_visit(function, visit)
    yield from found


class _Region:
    """A compiled model."""

    def __init__(self, func: relax.Function, names: Mapping[Any, str]) -> None:
        model = emit(func, DIALECT, names)
        repair(model.graph)
        require_kept_constants(model)
        weights = [model.graph.weights[name] for name in model.weights]
        description = Description.of(model, SETTINGS)
        self._run = open_region(description, model.skeleton().SerializeToString(), weights)

    def __call__(self, arguments: Sequence[Any], results: Sequence[Result]) -> list[np.ndarray]:
        given = [tvm.runtime.tensor(np.asarray(each, order="C")) for each in arguments]
        made = [poisoned(*result) for result in results]
        try:
            self._run(*given, *made)
        except ArgumentError as error:
            if "do not call the region with empty tensors" not in str(error):
                raise
            raise LeftOutError("openvino refuses to pool no images") from error
        return [tensor.numpy() for tensor in made]
