"""The options of target ``tensorrt``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

from annotated_region.errors import CodegenError
from annotated_region.targets.options import known_options

__all__ = ["PRECISIONS", "EngineSettings"]

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
_FALLBACKS = (None, "onnxruntime", "tvm")
Range = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How engines are built and run.

    Attributes
    ----------
    precision
        ``fp32``; ``tf32``, which lets TensorRT round the operands of products to 10 bits; ``fp16`` or
        ``bf16``, which let it compute in these types where they are faster (TensorRT 10 only).
    workspace
        The scratch memory limit of an engine in bytes; 0 for TensorRT's default.
    profiles
        The minimum, typical and maximum value of symbolic extents, by name. One engine is built for such a
        range. Without ranges, one engine is built for each combination of shapes that occurs.
    cache
        Whether engines and measured timings are kept in the user's cache folder.
    device
        The number of the GPU.
    fallback
        The engine that runs regions if TensorRT or a GPU is missing: ``"onnxruntime"``, ``"tvm"``, or None
        for an error.
    onnx_folder
        A folder to which the model of each region is also written, as ``<function>.onnx``.
    """

    precision: str = "fp32"
    workspace: int = 0
    profiles: Mapping[str, Range] = field(default_factory=dict)
    cache: bool = True
    device: int = 0
    fallback: str | None = None
    onnx_folder: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> EngineSettings:
        """Settings from the options of the code generator.

        Raises
        ------
        CodegenError
            An option is unknown, or has an invalid value.
        """
        given = known_options("tensorrt", options, [each.name for each in fields(cls)])
        if given.get("onnx_folder") is not None:
            given["onnx_folder"] = str(given["onnx_folder"])
        given["profiles"] = {
            str(name): _range(str(name), values) for name, values in given.get("profiles", {}).items()
        }
        settings = cls(**given)
        _require(settings.precision in PRECISIONS, f"precision {settings.precision!r}", PRECISIONS)
        _require(settings.fallback in _FALLBACKS, f"fallback {settings.fallback!r}", _FALLBACKS)
        return settings

    def to_dict(self) -> dict[str, object]:
        """The settings as plain values."""
        return asdict(self)


def _require(condition: bool, what: str, known: tuple[str | None, ...]) -> None:
    if not condition:
        raise CodegenError(f"target 'tensorrt' does not know the {what}; known: {', '.join(map(str, known))}")


def _range(name: str, values: Iterable[int]) -> Range:
    least, usual, largest = map(int, values)
    if not 0 < least <= usual <= largest:
        raise CodegenError(
            f"target 'tensorrt': the profile of {name!r} is {values}; give minimum, typical and maximum value"
        )
    return least, usual, largest
