"""Runs a region: the session is created once, and bound to the caller's memory at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter.arguments import (
    Argument,
    check_devices,
    dense_input,
    dense_output,
)
from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.onnxruntime.kernel_times import recording
from annotated_region.backends.onnxruntime.session import NOT_OF_NUMPY, SessionSettings, make_session

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Runner", "open_region"]

_CPU = "cpu"
# The execution providers that can access GPU memory.
_PROVIDERS_OF_GPUS = frozenset(("CUDAExecutionProvider", "TensorrtExecutionProvider"))


def open_region(description: Description, model: bytes, weights: Sequence[tvm.runtime.Tensor]) -> Runner:
    """The runner of a region.

    Parameters
    ----------
    description
        Names and settings.
    model
        The model without its weights.
    weights
        The weights, in the order of their names in the description; they are used in place.

    Raises
    ------
    BackendUnavailableError
        ONNX Runtime, or the requested provider, is not available on this machine.
    """
    arrays = {name: array_of(tensor) for name, tensor in zip(description.weights, weights, strict=True)}
    settings = SessionSettings.of(description.options)
    session = make_session(model, arrays, settings)
    return Runner(
        description, session, arrays, lambda profile: make_session(model, arrays, settings, profile)
    )


class Runner:
    """Runs the session of one region on tensors of TVM; may be called by several threads at once."""

    def __init__(
        self,
        description: Description,
        session: onnxruntime.InferenceSession,
        weights: dict[str, np.ndarray],
        profiled: Callable[[str], onnxruntime.InferenceSession] | None = None,
    ) -> None:
        self._profiled = profiled
        self._symbol = description.symbol
        self._inputs, self._outputs = description.inputs, description.outputs
        self._session = session
        self._weights = weights  # the session reads them where they lie
        has_gpu = not _PROVIDERS_OF_GPUS.isdisjoint(session.get_providers())
        self._devices = (_CPU, "cuda") if has_gpu else (_CPU,)

    def __call__(self, *arguments: Argument) -> None:
        """Run the region; the arguments are the inputs, then the outputs, which are written in place.

        Raises
        ------
        ArgumentError
            A tensor is on a device that the session cannot access, or has unsupported strides.
        """
        check_devices(self._symbol, arguments, self._devices)
        session = self._running()
        binding = session.io_binding()
        count = len(self._inputs)
        held = [dense_input(self._symbol, argument) for argument in arguments[:count]]
        results = [dense_output(self._symbol, argument) for argument in arguments[count:]]
        for name, value in zip(self._inputs, held, strict=True):
            binding.bind_input(name, *_place(value))
        for name, (value, _) in zip(self._outputs, results, strict=True):
            binding.bind_output(name, *_place(value))
        session.run_with_iobinding(binding)
        for _, bring_back in results:
            bring_back()

    def _running(self) -> onnxruntime.InferenceSession:
        """The session, or a profiling session during a recording."""
        record = recording()
        if record is None or self._profiled is None:
            return self._session
        return record.session(self._symbol, self._profiled)


def _place(tensor: tvm.runtime.Tensor) -> tuple[str, int, np.dtype | int, list[int], int]:
    """The memory of a tensor, in the form that ONNX Runtime's binding expects."""
    device, dtype = tensor.device, str(tensor.dtype)
    return (
        str(device.type),
        device.index,
        NOT_OF_NUMPY[dtype] if dtype in NOT_OF_NUMPY else np.dtype(dtype),
        list(tensor.shape),
        tensor.data_ptr(),
    )
