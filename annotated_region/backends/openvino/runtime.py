"""Runs a region: the model is compiled once, and its requests read and write the caller's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import tvm

from annotated_region.backends.onnx_emitter.arguments import (
    Argument,
    bits_of,
    check_devices,
    dense_input,
    dense_output,
)
from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.openvino.compiled import compiled_model
from annotated_region.backends.openvino.installation import require_library
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.errors import ArgumentError

if TYPE_CHECKING:
    import openvino

__all__ = ["RequestRunner", "open_region"]

_TYPES = {
    "float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64",
    "bool": "boolean",
}  # fmt: skip
"""OpenVINO's names of the data types."""


def open_region(
    description: Description, model: bytes, weights: Sequence[tvm.runtime.Tensor]
) -> RequestRunner:
    """The runner of a region.

    Parameters
    ----------
    description
        Names and settings.
    model
        The model without its weights.
    weights
        The weights, in the order of their names in the description.

    Raises
    ------
    BackendUnavailableError
        OpenVINO, or the requested device, is not available on this machine.
    BuildError
        OpenVINO rejects the model.
    """
    arrays = {name: array_of(tensor) for name, tensor in zip(description.weights, weights, strict=True)}
    settings = CompileSettings.of(description.options)
    return RequestRunner(description, compiled_model(description.symbol, model, arrays, settings))


class RequestRunner:
    """Runs the compiled model of one region on tensors of TVM; may be called by several threads at once."""

    def __init__(self, description: Description, compiled: openvino.CompiledModel) -> None:
        self._symbol = description.symbol
        self._count = len(description.inputs)
        self._places = _places(description.inputs, compiled)
        self._library = require_library()
        self._compiled = compiled
        self._pools = any(_is_pooling(each) for each in compiled.get_runtime_model().get_ops())
        self._idle: list[openvino.InferRequest] = []

    def __call__(self, *arguments: Argument) -> None:
        """Run the region; the arguments are the inputs, then the outputs, which are written in place.

        Where no output has elements, OpenVINO is not called.

        Raises
        ------
        ArgumentError
            A tensor is not in host memory, or has unsupported strides; or it has no elements, and the
            region pools.
        """
        check_devices(self._symbol, arguments, ("cpu",))
        held = [dense_input(self._symbol, argument) for argument in arguments[: self._count]]
        results = [dense_output(self._symbol, argument) for argument in arguments[self._count :]]
        if all(0 in value.shape for value, _ in results):
            return
        if self._pools:
            self._require_elements(held)
        with self._request() as request:
            for place, number in self._places:
                request.set_input_tensor(place, self._shared(held[number]))
            for place, (value, _) in enumerate(results):
                request.set_output_tensor(place, self._shared(value))
            request.infer()
        for _, bring_back in results:
            bring_back()

    def _require_elements(self, held: Sequence[tvm.runtime.Tensor]) -> None:
        """After a call without images, OpenVINO 2026.4 leaves the results of later ones as they were."""
        for _place, number in self._places:
            if 0 in held[number].shape:
                raise ArgumentError(
                    f"{self._symbol}: argument {number} has no elements; after such a call OpenVINO's "
                    "pooling returns stale results, so do not call the region with empty tensors"
                )

    def _shared(self, tensor: tvm.runtime.Tensor) -> openvino.Tensor:
        """An OpenVINO tensor that shares the memory of a TVM tensor."""
        shape = [int(extent) for extent in tensor.shape]
        type_ = getattr(self._library.Type, _TYPES[str(tensor.dtype)])
        return self._library.Tensor(bits_of(tensor), shape, type_)

    @contextmanager
    def _request(self) -> Iterator[openvino.InferRequest]:
        """A request that no concurrent call uses; the pool grows to the number of concurrent calls."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            yield request
        finally:
            self._idle.append(request)


def _is_pooling(node: openvino.Node) -> bool:
    """Whether a node of a compiled model is a pooling."""
    info = node.get_rt_info()
    return "layerType" in info and info["layerType"].astype(str) == "Pooling"


def _places(names: Sequence[str], compiled: openvino.CompiledModel) -> list[tuple[int, int]]:
    """For each input of the compiled model the index of its argument; unused arguments have no input."""
    numbers = {name: number for number, name in enumerate(names)}
    return [
        (place, next(numbers[name] for name in port.get_names() if name in numbers))
        for place, port in enumerate(compiled.inputs)
    ]
