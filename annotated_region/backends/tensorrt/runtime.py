"""Runs a region: engines by shape, built or loaded from the cache; without a GPU, the requested fallback."""

from __future__ import annotations

import json
import math
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter import stored
from annotated_region.backends.onnx_emitter.arguments import (
    Argument,
    check_devices,
    dense_input,
    dense_output,
    is_tensor,
)
from annotated_region.backends.onnx_emitter.assembly import array_of, assembled, digest_of
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.tensorrt.cuda import Buffer, Cuda, load_cuda
from annotated_region.backends.tensorrt.engine import Engine, InputProfile, build_plan
from annotated_region.backends.tensorrt.fallback import fallback_runner
from annotated_region.backends.tensorrt.installation import PACKAGE, require_library, unavailable
from annotated_region.backends.tensorrt.settings import EngineSettings
from annotated_region.errors import BuildError

__all__ = ["EngineRunner", "open_region"]

Profiles = Mapping[str, InputProfile]


def open_region(
    description: Description, model: bytes, weights: Sequence[tvm.runtime.Tensor]
) -> Callable[..., None]:
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
        TensorRT or a GPU is missing, and no fallback was requested.
    """
    settings = EngineSettings.of(description.options)
    arrays = {name: array_of(tensor) for name, tensor in zip(description.weights, weights, strict=True)}
    reason = unavailable()
    if reason and settings.fallback:
        return fallback_runner(settings.fallback, reason, description, model, arrays)
    tensorrt, cuda = require_library(), load_cuda()
    assert cuda is not None, "TensorRT is not available without a GPU"
    return EngineRunner(description, model, arrays, tensorrt, Cuda(cuda, settings.device))


class EngineRunner:
    """Runs one region on a GPU; concurrent calls are serialized."""

    def __init__(
        self,
        description: Description,
        model: bytes,
        weights: Mapping[str, np.ndarray],
        tensorrt: ModuleType,
        cuda: Cuda,
    ) -> None:
        self._description = description
        self._settings = EngineSettings.of(description.options)
        self._model, self._weights = model, weights
        self._tensorrt, self._cuda = tensorrt, cuda
        self._dims = _dims(model)
        self._engines: dict[str, Engine] = {}
        self._buffers: dict[str, Buffer] = {}
        self._lock = threading.Lock()
        self._digest: str | None = None

    def __call__(self, *arguments: Argument) -> None:
        """Run the region; the arguments are the inputs, then the outputs, which are written in place.

        Raises
        ------
        ArgumentError
            A tensor is on an inaccessible device, or has unsupported strides.
        BuildError
            TensorRT cannot build or run an engine for these shapes.
        BackendUnavailableError
            CUDA reports an error.
        """
        names, count = self._description, len(self._description.inputs)
        check_devices(names.symbol, arguments, ("cpu", "cuda"))
        held = [_dense(names.symbol, argument) for argument in arguments[:count]]
        results = [dense_output(names.symbol, argument) for argument in arguments[count:]]
        self._run(
            dict(zip(names.inputs, held, strict=True)),
            dict(zip(names.outputs, (result for result, _ in results), strict=True)),
        )
        for _, bring_back in results:
            bring_back()

    def _run(self, inputs: Mapping[str, Held], outputs: Mapping[str, tvm.runtime.Tensor]) -> None:
        with self._lock:
            self._cuda.start()
            engine = self._engine(self._profiles(inputs))
            for name, value in inputs.items():
                engine.bind_input(name, _shape(value), self._input_address(engine, name, value))
            for name, value in outputs.items():
                engine.bind_output(name, self._output_address(name, value))
            engine.start(self._cuda.stream)
            for name, value in outputs.items():
                if not _on_device(value):
                    self._cuda.to_host(value.data_ptr(), self._buffers[name].address, _size(value))
            self._cuda.wait()

    def _input_address(self, engine: Engine, name: str, value: Held) -> int:
        if _on_device(value) or engine.takes_values(name):
            return int(value.data_ptr())
        address = self._cuda.reserve(self._buffers.setdefault(name, Buffer()), _size(value))
        self._cuda.to_device(address, value.data_ptr(), _size(value))
        return address

    def _output_address(self, name: str, value: Held) -> int:
        if _on_device(value):
            return int(value.data_ptr())
        return self._cuda.reserve(self._buffers.setdefault(name, Buffer()), _size(value))

    def _profiles(self, inputs: Mapping[str, Held]) -> Profiles:
        """The optimization profiles: the user's ranges where there are any, else the shapes of this call."""
        return {name: self._range(name, value) for name, value in inputs.items()}

    def _range(self, name: str, value: Held) -> InputProfile:
        if isinstance(value, _Values):
            return InputProfile(value.values, value.values, value.values, are_values=True)
        shape, given = _shape(value), self._settings.profiles
        ranges = [given.get(dim, (extent,) * 3) for dim, extent in zip(self._dims[name], shape, strict=True)]
        least, usual, largest = (tuple(each[place] for each in ranges) for place in range(3))
        for extent, low, high in zip(shape, least, largest, strict=True):
            if not low <= extent <= high:
                raise BuildError(
                    f"{self._description.symbol}: input {name!r} has the shape {shape}, outside of the "
                    f"profile from {least} to {largest}; give a wider range in the option 'profiles'"
                )
        return InputProfile(least, usual, largest)

    def _engine(self, profiles: Profiles) -> Engine:
        shapes = json.dumps(
            {name: [each.least, each.usual, each.largest, each.are_values] for name, each in profiles.items()}
        )
        if shapes not in self._engines:
            self._engines[shapes] = self._load_or_build(shapes, profiles)
        return self._engines[shapes]

    def _load_or_build(self, shapes: str, profiles: Profiles) -> Engine:
        """An engine from the cache; built if there is none, or if TensorRT rejects it."""
        place = f"{self._tensorrt.__version__} {self._cuda.name()}"
        if self._digest is None:
            self._digest = digest_of(self._model, self._weights)
        options = f"{self._settings.precision} {self._settings.workspace}"
        key = f"engine {self._digest} {options} {shapes} {place}"
        plan = stored.load(PACKAGE, key) if self._settings.cache else None
        if plan is not None:
            try:
                return Engine(self._tensorrt, plan)
            except BuildError:
                pass  # a rejected entry is built again, and replaced
        return Engine(self._tensorrt, self._build(key, f"timings {place}", profiles))

    def _build(self, key: str, timing_key: str, profiles: Profiles) -> bytes:
        timings = (stored.load(PACKAGE, timing_key) if self._settings.cache else None) or b""
        with tempfile.TemporaryDirectory() as folder:
            try:
                plan, timings = build_plan(
                    self._tensorrt,
                    assembled(self._model, self._weights, Path(folder)),
                    profiles,
                    self._settings,
                    timings,
                )
            except BuildError as error:
                raise BuildError(f"{self._description.symbol}: {error}") from error
        if self._settings.cache:
            stored.store(PACKAGE, key, plan)
            stored.store(PACKAGE, timing_key, timings)
        return plan


class _Values:
    """A shape argument: a vector of int64 on the host."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.values = tuple(map(int, shape))
        self._array = np.asarray(self.values, np.int64)

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)


Held: TypeAlias = tvm.runtime.Tensor | _Values
"""An argument in memory."""


def _dense(symbol: str, argument: Argument) -> Held:
    return dense_input(symbol, argument) if is_tensor(argument) else _Values(argument)


def _on_device(value: Held) -> bool:
    return not isinstance(value, _Values) and str(value.device.type) == "cuda"


def _shape(value: Held) -> tuple[int, ...]:
    return (len(value.values),) if isinstance(value, _Values) else tuple(map(int, value.shape))


def _size(value: Held) -> int:
    if isinstance(value, _Values):
        return 8 * len(value.values)
    return int(math.prod(_shape(value)) * tvm.DataType(str(value.dtype)).bits // 8)


def _dims(model: bytes) -> dict[str, list[str]]:
    """The names of the symbolic extents of each input; empty for static ones."""
    proto = import_module("onnx").load_model_from_string(model)
    return {
        value.name: [str(dim.dim_param) for dim in value.type.tensor_type.shape.dim]
        for value in proto.graph.input
    }
