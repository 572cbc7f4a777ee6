"""Runs a region on another engine if TensorRT is missing, with one warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

import numpy as np
import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter.arguments import (
    Argument,
    check_devices,
    dense_input,
    dense_output,
    is_tensor,
)
from annotated_region.backends.onnx_emitter.assembly import assemble
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.onnxruntime import runtime as onnxruntime
from annotated_region.backends.onnxruntime.repairs import CRASHING
from annotated_region.backends.onnxruntime.session import SessionSettings, make_session

__all__ = ["fallback_runner"]

# In bytes. TVM's kernels use aligned vector loads, which fault at unaligned addresses.
_ALIGNMENT = 64


def fallback_runner(
    name: str, reason: str, description: Description, model: bytes, weights: Mapping[str, np.ndarray]
) -> Callable[..., None]:
    """The runner of a region that does not use TensorRT.

    Parameters
    ----------
    name
        ``"onnxruntime"`` or ``"tvm"``.
    reason
        Why TensorRT is not available.
    description, model, weights
        The region.

    Raises
    ------
    BackendUnavailableError
        ONNX Runtime is missing as well.
    """
    _warn_once(name, reason)
    if name == "tvm":
        return _run_by_tvm(description, assemble(model, weights))
    session = make_session(model, weights, SessionSettings(disabled=(CRASHING,)))
    return onnxruntime.Runner(description, session, dict(weights))


@cache
def _warn_once(name: str, reason: str) -> None:
    warnings.warn(
        f"target 'tensorrt' cannot run here ({reason}); its regions run on {name}, as the option 'fallback' "
        "requests",
        stacklevel=1,
    )


def _run_by_tvm(description: Description, model: bytes) -> Callable[..., None]:
    """The model, imported and compiled by TVM for the host."""
    proto = import_module("onnx").load_model_from_string(model)
    mod = import_module("tvm.relax.frontend.onnx").from_onnx(proto, keep_params_in_input=False)
    entry = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())["main"]
    count = len(description.inputs)

    def run(*arguments: Argument) -> None:
        check_devices(description.symbol, arguments, ("cpu",))
        made = entry(*(_dense(description.symbol, argument) for argument in arguments[:count]))
        results = [made] if hasattr(made, "numpy") else list(made)
        for result, argument in zip(results, arguments[count:], strict=True):
            output, bring_back = dense_output(description.symbol, argument)
            result.copyto(output)
            bring_back()

    return run


def _dense(symbol: str, argument: Argument) -> Argument:
    return dense_input(symbol, argument, _ALIGNMENT) if is_tensor(argument) else argument
