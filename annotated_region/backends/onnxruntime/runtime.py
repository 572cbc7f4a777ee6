"""Runs a region: a session made once, bound to the caller's memory at every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.onnxruntime.session import Settings, make_session

__all__ = ["Runner", "open_region"]

_DEVICES = {"cpu": "cpu", "cuda": "cuda"}


def open_region(description: Description, model: bytes, weights: Sequence[tvm.runtime.Tensor]) -> Runner:
    """The runner of a region.

    Parameters
    ----------
    description
        Names and settings.
    model
        The model without its weights.
    weights
        The weights, in the order of their names in the description; they are read where they lie.

    Raises
    ------
    BackendUnavailableError
        ONNX Runtime, or the provider that is asked for, is not on this machine.
    """
    arrays = {name: np.from_dlpack(tensor) for name, tensor in zip(description.weights, weights, strict=True)}
    session = make_session(model, arrays, Settings.of(description.options))
    return Runner(description, session, arrays)


class Runner:
    """Runs the session of one region on tensors of TVM; may be called by several threads at once."""

    def __init__(self, description: Description, session: Any, weights: dict[str, np.ndarray]) -> None:
        self._inputs, self._outputs = description.inputs, description.outputs
        self._session = session
        self._weights = weights  # the session reads them where they lie

    def __call__(self, *arguments: Any) -> None:
        """Run it; the arguments are the inputs, then the outputs, which are written in place."""
        binding = self._session.io_binding()
        count = len(self._inputs)
        held = [_tensor(argument) for argument in arguments[:count]]
        for name, value in zip(self._inputs, held, strict=True):
            binding.bind_input(name, *_place(value))
        for name, value in zip(self._outputs, arguments[count:], strict=True):
            binding.bind_output(name, *_place(value))
        self._session.run_with_iobinding(binding)


def _tensor(argument: Any) -> Any:
    """The argument as a dense tensor: a shape becomes a vector, a view with gaps is copied."""
    if not hasattr(argument, "data_ptr"):
        return tvm.runtime.tensor(np.asarray(list(argument), np.int64))
    if argument.is_contiguous():
        return argument
    return tvm.runtime.tensor(np.ascontiguousarray(np.from_dlpack(argument)))


def _place(tensor: Any) -> tuple[str, int, Any, list[int], int]:
    """Where a tensor lies, as ONNX Runtime's binding takes it."""
    device = tensor.device
    return (
        _DEVICES[device.type],
        device.index,
        np.dtype(str(tensor.dtype)),
        list(tensor.shape),
        tensor.data_ptr(),
    )
