"""All uses of TensorRT's Python API: building and running engines.

Written against the documentation of TensorRT 10 and 11, which accept the same calls, except that 11 has only
strongly typed networks, and no flags for half precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from annotated_region.backends.tensorrt.settings import EngineSettings
from annotated_region.errors import BackendUnavailableError, BuildError

if TYPE_CHECKING:
    import tensorrt

__all__ = ["Engine", "InputProfile", "build_plan"]

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputProfile:
    """The optimization profile of one input: its shapes, or its values if it is a shape tensor."""

    least: Extents
    usual: Extents
    largest: Extents
    are_values: bool = False


def build_plan(
    tensorrt: ModuleType,
    model: bytes | Path,
    profiles: Mapping[str, InputProfile],
    settings: EngineSettings,
    timings: bytes,
) -> tuple[bytes, bytes]:
    """Build an engine.

    Parameters
    ----------
    tensorrt
        The module ``tensorrt``.
    model
        The ONNX model, or the path of a model too large for one protobuf message.
    profiles
        The optimization profile of each input.
    settings
        The engine settings.
    timings
        The timings that an earlier call returned, or empty; TensorRT ignores those of other devices.

    Returns
    -------
    tuple[bytes, bytes]
        The engine and the timings, both serialized by TensorRT.

    Raises
    ------
    BuildError
        TensorRT cannot parse the model, or finds no implementation; the message contains its reasons.
    BackendUnavailableError
        This version of TensorRT does not support the requested precision.
    """
    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, logger)
    parsed = parser.parse_from_file(str(model)) if isinstance(model, Path) else parser.parse(model)
    if not parsed:
        reasons = [str(parser.get_error(index).desc()) for index in range(parser.num_errors)]
        raise BuildError(f"TensorRT cannot read the model: {'; '.join(reasons)}")
    config = builder.create_builder_config()
    _set_precision(tensorrt, config, settings.precision)
    if settings.workspace:
        config.set_memory_pool_limit(tensorrt.MemoryPoolType.WORKSPACE, settings.workspace)
    cache = config.create_timing_cache(timings)
    if not config.set_timing_cache(cache, False):
        cache = config.create_timing_cache(b"")
        config.set_timing_cache(cache, False)
    config.add_optimization_profile(_profile(builder, profiles))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildError("TensorRT found no implementation of the model; see its log on the standard output")
    return bytes(plan), bytes(cache.serialize())


def _set_precision(tensorrt: ModuleType, config: tensorrt.IBuilderConfig, precision: str) -> None:
    flags = tensorrt.BuilderFlag
    if precision in ("fp32", "tf32"):
        (config.clear_flag if precision == "fp32" else config.set_flag)(flags.TF32)
        return
    flag = getattr(flags, precision.upper(), None)
    if flag is None:
        raise BackendUnavailableError(
            f"target 'tensorrt': TensorRT {tensorrt.__version__} has no switch for {precision}: types are "
            "those of the model; convert the module (relax.transform.ToMixedPrecision) and leave the "
            "option out, or install TensorRT 10"
        )
    config.set_flag(flag)


def _profile(
    builder: tensorrt.Builder, profiles: Mapping[str, InputProfile]
) -> tensorrt.IOptimizationProfile:
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        set_range = profile.set_shape_input if shapes.are_values else profile.set_shape
        set_range(name, shapes.least, shapes.usual, shapes.largest)
    return profile


class Engine:
    """An engine with its execution context; not thread-safe."""

    def __init__(self, tensorrt: ModuleType, plan: bytes) -> None:
        """Deserialize an engine that `build_plan` returned.

        Raises
        ------
        BuildError
            This TensorRT cannot run it on this device.
        """
        self._logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        self._runtime = tensorrt.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise BuildError("TensorRT cannot read an engine")
        self._context = self._engine.create_execution_context()

    def takes_values(self, name: str) -> bool:
        """Whether an input is a shape tensor, whose values TensorRT reads on the host."""
        return bool(self._engine.is_shape_inference_io(name))

    def bind_input(self, name: str, shape: Sequence[int], address: int) -> None:
        """Set the shape and the address of an input."""
        self._context.set_input_shape(name, tuple(shape))
        self._context.set_tensor_address(name, address)

    def bind_output(self, name: str, address: int) -> None:
        """Set the address of an output."""
        self._context.set_tensor_address(name, address)

    def start(self, stream: int) -> None:
        """Enqueue the engine on a stream.

        Raises
        ------
        BuildError
            TensorRT reports an error.
        """
        if not self._context.execute_async_v3(stream):
            raise BuildError("TensorRT could not run an engine; see its log on the standard output")
