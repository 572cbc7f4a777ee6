"""TensorRT's Python API and the CUDA runtime as their documentation lists them, played by a stand-in.

Whoever calls something that is not in the tables, or with other parameters, fails. The stand-in for a GPU is
memory that only CUDA's own calls may name, and an engine is the model, run by ONNX Runtime.
"""

from __future__ import annotations

import ctypes
import inspect
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime

__all__ = ["FLAGS", "METHODS", "FakeCuda", "FakeTensorrt"]

# Class, method, parameters; a parameter with "=" may be left out. The same in 10.16 and in 11.1.
METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    "Logger": {"__init__": ("min_severity=",)},
    "Builder": {
        "__init__": ("logger",),
        "create_network": ("flags=",),
        "create_builder_config": (),
        "create_optimization_profile": (),
        "build_serialized_network": ("network", "config"),
    },
    "INetworkDefinition": {},
    "OnnxParser": {
        "__init__": ("network", "logger"),
        "parse": ("model", "path="),
        "parse_from_file": ("model",),
        "get_error": ("index",),
    },
    "ParserError": {"desc": ()},
    "IBuilderConfig": {
        "set_memory_pool_limit": ("pool", "pool_size"),
        "set_flag": ("flag",),
        "clear_flag": ("flag",),
        "add_optimization_profile": ("profile",),
        "create_timing_cache": ("serialized_timing_cache",),
        "set_timing_cache": ("cache", "ignore_mismatch"),
    },
    "IOptimizationProfile": {
        "set_shape": ("input", "min", "opt", "max"),
        "set_shape_input": ("input", "min", "opt", "max"),
    },
    "ITimingCache": {"serialize": ()},
    "Runtime": {"__init__": ("logger",), "deserialize_cuda_engine": ("serialized_engine",)},
    "ICudaEngine": {"create_execution_context": ("strategy=",), "is_shape_inference_io": ("name",)},
    "IExecutionContext": {
        "set_input_shape": ("name", "shape"),
        "set_tensor_address": ("name", "memory"),
        "execute_async_v3": ("stream_handle",),
    },
}
PROPERTIES = {"OnnxParser": ("num_errors",)}
FLAGS = {"10": ("FP16", "BF16", "INT8", "TF32", "REFIT"), "11": ("TF32", "REFIT")}

# The CUDA runtime: function, types of its parameters.
CUDA: dict[str, tuple[type, ...]] = {
    "cudaSetDevice": (ctypes.c_int,),
    "cudaGetDeviceCount": (object,),
    "cudaDeviceGetAttribute": (object, ctypes.c_int, ctypes.c_int),
    "cudaStreamCreate": (object,),
    "cudaStreamSynchronize": (ctypes.c_void_p,),
    "cudaMalloc": (object, ctypes.c_size_t),
    "cudaFree": (ctypes.c_void_p,),
    "cudaMemcpyAsync": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p),
}
ATTRIBUTES = {16: 84, 75: 8, 76: 6}
STREAM = 4711


def signature(parameters: tuple[str, ...]) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                name.rstrip("="),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if name.endswith("=") else inspect.Parameter.empty,
            )
            for name in parameters
        ]
    )


class Documented:
    """An object of a documented class; `behaviour` says what its methods and properties give."""

    def __init__(self, owner: FakeTensorrt, kind: str, **behaviour: Any) -> None:
        self._owner, self._kind, self._behaviour = owner, kind, behaviour

    def __getattr__(self, name: str) -> Any:
        if name in PROPERTIES.get(self._kind, ()):
            return self._behaviour[name]
        assert name in METHODS[self._kind], f"{self._kind}.{name} is not documented"
        return lambda *given, **named: self._called(name, given, named)

    def _called(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments = signature(METHODS[self._kind][name]).bind(*given, **named).arguments
        self._owner.calls.append((f"{self._kind}.{name}", arguments))
        action = self._behaviour.get(name, lambda **_: None)
        return action(**arguments)


class FakeTensorrt:
    """The module ``tensorrt``."""

    def __init__(self, cuda: FakeCuda, version: str = "10.16.1") -> None:
        self.__version__ = version
        self.calls: list[tuple[str, Any]] = []
        self.refuses: str | None = None
        self.cuda = cuda
        self.BuilderFlag = SimpleNamespace(**{name: name for name in FLAGS[version[:2]]})
        self.MemoryPoolType = SimpleNamespace(WORKSPACE="WORKSPACE")

    def named(self, name: str) -> list[Any]:
        """The arguments of every call of one method."""
        return [arguments for called, arguments in self.calls if called == name]

    # -- the classes that a program makes objects of

    @property
    def Logger(self) -> Any:
        make = self._constructor("Logger", lambda **_: {})
        make.ERROR = "ERROR"
        return make

    @property
    def Builder(self) -> Any:
        return self._constructor("Builder", self._builder)

    @property
    def OnnxParser(self) -> Any:
        return self._constructor("OnnxParser", self._parser)

    @property
    def Runtime(self) -> Any:
        return self._constructor("Runtime", lambda **_: {"deserialize_cuda_engine": self._deserialize})

    def _constructor(self, kind: str, behave: Callable[..., dict[str, Any]]) -> Callable[..., Documented]:
        def make(*given: Any, **named: Any) -> Documented:
            arguments = signature(METHODS[kind]["__init__"]).bind(*given, **named).arguments
            self.calls.append((kind, arguments))
            return Documented(self, kind, **behave(**arguments))

        return make

    # -- what they do

    def _builder(self, **_: Any) -> dict[str, Any]:
        self.network = Documented(self, "INetworkDefinition")
        self.profile: dict[str, Any] = {}
        return {
            "create_network": lambda **_: self.network,
            "create_builder_config": lambda **_: self._config(),
            "create_optimization_profile": lambda **_: Documented(
                self, "IOptimizationProfile", set_shape=self._set_shape, set_shape_input=self._set_shape
            ),
            "build_serialized_network": lambda **_: None if self.refuses == "build" else self._plan(),
        }

    def _set_shape(self, **given: Any) -> None:
        assert all(
            low <= mid <= high
            for low, mid, high in zip(given["min"], given["opt"], given["max"], strict=True)
        )
        self.profile[given["input"]] = [given["min"], given["opt"], given["max"]]

    def _parser(self, network: Any, **_: Any) -> dict[str, Any]:
        assert network is self.network

        def parse(model: Any, **_: Any) -> bool:
            self.model = onnx.load(model) if isinstance(model, str) else onnx.load_model_from_string(model)
            return self.refuses != "parse"

        error = Documented(self, "ParserError", desc=lambda **_: "no such operator")
        return {"parse": parse, "parse_from_file": parse, "num_errors": 1, "get_error": lambda **_: error}

    def _config(self) -> Documented:
        def timing_cache(serialized_timing_cache: bytes) -> Documented:
            return Documented(self, "ITimingCache", serialize=lambda **_: serialized_timing_cache + b"timed")

        return Documented(
            self,
            "IBuilderConfig",
            create_timing_cache=timing_cache,
            set_timing_cache=lambda **_: self.refuses != "timings",
        )

    def _plan(self) -> bytearray:
        head = json.dumps({"version": self.__version__, "profile": self.profile})
        return bytearray(head.encode() + b"\n" + self.model.SerializeToString())

    def _deserialize(self, serialized_engine: bytes) -> Documented | None:
        head, _, model = serialized_engine.partition(b"\n")
        try:
            described = json.loads(head)
        except ValueError:
            return None
        if described["version"] != self.__version__:
            return None
        return Documented(
            self,
            "ICudaEngine",
            create_execution_context=lambda **_: self._context(model, described["profile"]),
            is_shape_inference_io=lambda name: name == "shape_vars",
        )

    def _context(self, model: bytes, profile: dict[str, Any]) -> Documented:
        session = onnxruntime.InferenceSession(bytes(model))
        shapes: dict[str, tuple[int, ...]] = {}
        addresses: dict[str, int] = {}

        def execute(stream_handle: int) -> bool:
            assert stream_handle == STREAM
            values = {
                each.name: self.cuda.read(addresses[each.name], shapes[each.name], _dtype(each), each.name)
                for each in session.get_inputs()
            }
            for output, made in zip(session.get_outputs(), session.run(None, values), strict=True):
                self.cuda.write(addresses[output.name], made)
            return self.refuses != "execute"

        def set_input_shape(name: str, shape: tuple[int, ...]) -> None:
            if name != "shape_vars":
                low, _, high = profile[name]
                assert all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True))
            shapes[name] = shape

        return Documented(
            self,
            "IExecutionContext",
            set_input_shape=set_input_shape,
            set_tensor_address=lambda name, memory: addresses.update({name: memory}),
            execute_async_v3=execute,
        )


def _dtype(port: Any) -> np.dtype:
    names = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bool)": "bool"}
    return np.dtype(str(names.get(port.type, port.type[len("tensor(") : -1])))


class FakeCuda:
    """The library ``libcudart`` with one device, whose memory is kept apart from the host's."""

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.memory: dict[int, Any] = {}
        self.calls: list[str] = []
        self.waited = True
        self.attributes = dict(ATTRIBUTES)

    def __getattr__(self, name: str) -> Any:
        assert name in CUDA, f"{name} is not documented"

        def call(*arguments: Any) -> int:
            assert len(arguments) == len(CUDA[name]), name
            for argument, kind in zip(arguments, CUDA[name], strict=True):
                assert isinstance(argument, kind), f"{name}: {argument}"
            self.calls.append(name)
            return int(getattr(self, f"_{name}")(*arguments) or 0)

        return call

    def _cudaSetDevice(self, device: Any) -> int:
        return 0 if device.value < self.devices else 101

    def _cudaGetDeviceCount(self, count: Any) -> None:
        count._obj.value = self.devices

    def _cudaDeviceGetAttribute(self, value: Any, attribute: Any, _device: Any) -> None:
        value._obj.value = self.attributes[attribute.value]

    def _cudaStreamCreate(self, stream: Any) -> None:
        stream._obj.value = STREAM

    def _cudaStreamSynchronize(self, stream: Any) -> None:
        assert stream.value == STREAM
        self.waited = True

    def _cudaMalloc(self, pointer: Any, size: Any) -> None:
        block = ctypes.create_string_buffer(size.value)
        self.memory[ctypes.addressof(block)] = block
        pointer._obj.value = ctypes.addressof(block)

    def _cudaFree(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def _cudaMemcpyAsync(self, target: Any, source: Any, size: Any, kind: Any, stream: Any) -> None:
        assert stream.value == STREAM
        on_device = {1: target, 2: source}[kind.value]
        assert len(self.memory[on_device.value]) >= size.value
        ctypes.memmove(target.value, source.value, size.value)
        self.waited = False

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype, name: str) -> np.ndarray:
        """What the device sees at an address; a shape is read on the host."""
        assert address in self.memory or name == "shape_vars"
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(address, size), dtype).reshape(shape)

    def write(self, address: int, value: np.ndarray) -> None:
        assert len(self.memory[address]) >= value.nbytes
        ctypes.memmove(address, np.ascontiguousarray(value).ctypes.data, value.nbytes)
