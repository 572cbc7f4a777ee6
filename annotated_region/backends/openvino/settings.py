"""The options of target ``openvino``, and the OpenVINO properties that they set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from annotated_region.errors import CodegenError
from annotated_region.targets.options import known_options

__all__ = ["PRECISIONS", "UNLISTED", "CompileSettings"]

PRECISIONS = ("f32", "bf16", "f16")

UNLISTED = "SNIPPETS_MODE"
"""A property that the CPU plugin accepts, but does not list as supported."""


@dataclass(frozen=True, slots=True)
class CompileSettings:
    """How models are compiled and run.

    Attributes
    ----------
    device
        OpenVINO's name of the device: ``CPU``, ``GPU``, ``NPU``, ``GPU.1``, ``AUTO``, ...
    precision
        The precision of products and sums of float32: ``f32``, ``bf16`` or ``f16``. OpenVINO's own
        default is the fastest that the device has, which is ``bf16`` on many processors.
    dynamic_quantization
        The group size of dynamic quantization, which rounds activations to 8 bits where the weights are
        quantized; 0 disables it. OpenVINO's own default is 32.
    snippets
        Whether the CPU plugin may generate kernels for whole subgraphs, attention among them. Those of
        OpenVINO 2026.4 are wrong for some graphs and crash the process for others (`README.md` has two).
    threads
        The number of threads of one region; 0 for OpenVINO's default.
    cache
        Whether compiled models are kept in the user's cache folder.
    """

    device: str = "CPU"
    precision: str = "f32"
    dynamic_quantization: int = 0
    snippets: bool = False
    threads: int = 0
    cache: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object]) -> CompileSettings:
        """Settings from the options of the code generator.

        Raises
        ------
        CodegenError
            An option is unknown, or has an invalid value.
        """
        settings = cls(**known_options("openvino", options, [field.name for field in fields(cls)]))
        _require(isinstance(settings.device, str) and bool(settings.device), f"device {settings.device!r}")
        _require(settings.precision in PRECISIONS, f"precision {settings.precision!r}", ", ".join(PRECISIONS))
        for name in ("dynamic_quantization", "threads"):
            value = getattr(settings, name)
            _require(isinstance(value, int) and value >= 0, f"{name} {value!r}", "0 and more")
        for name in ("snippets", "cache"):
            value = getattr(settings, name)
            _require(isinstance(value, bool), f"{name} {value!r}", "True, False")
        return settings

    def to_dict(self) -> dict[str, object]:
        """The settings as plain values."""
        return asdict(self)

    def properties(self) -> dict[str, str | bool]:
        """The properties of OpenVINO, by name, optimized for the latency of single calls.

        Threads are not pinned, because pinned threads interfere with those of TVM and of other engines.
        """
        found: dict[str, str | bool] = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "EXECUTION_MODE_HINT": "ACCURACY" if self.precision == "f32" else "PERFORMANCE",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": str(self.dynamic_quantization),
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
        }
        if not self.snippets:
            found[UNLISTED] = "DISABLE"
        if self.threads:
            found["INFERENCE_NUM_THREADS"] = str(self.threads)
        return found


def _require(condition: bool, what: str, known: str = "names of devices, such as CPU") -> None:
    if not condition:
        raise CodegenError(f"target 'openvino' does not know the {what}; known: {known}")
