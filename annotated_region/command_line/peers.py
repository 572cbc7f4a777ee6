"""The reference engine of a benchmark: ONNX Runtime on the same file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np

from annotated_region.importing.onnx_models.values import fitting
from annotated_region.printable import first_line

__all__ = ["FAILURES", "PEER", "Refused", "Run", "why_left_out", "with_onnx_runtime"]

PEER = "ONNX Runtime"
Run: TypeAlias = Callable[[], object]
FAILURES: tuple[type[Exception], ...] = (RuntimeError, ValueError, TypeError, MemoryError)
"""The errors of a runtime that cannot run a module, for example if memory runs out."""
_DTYPES = {"float": "float32", "double": "float64"}
"""The types that ONNX Runtime calls otherwise, as in ``tensor(float)``."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why an engine does not run the model, in place of times."""

    reason: str


def why_left_out(path: Path) -> str | None:
    """Why ONNX Runtime is not measured, with a remedy; None if it can be."""
    if path.suffix.lower() != ".onnx":
        return f"{path.name} is not an ONNX file"
    try:
        import_module("onnxruntime")
    except ImportError:
        return "it is not installed; pip install 'annotated-region[onnxruntime]'"
    return None


def with_onnx_runtime(
    path: Path, inputs: Sequence[np.ndarray], values: Mapping[str, object]
) -> Run | Refused:
    """A run of the file in ONNX Runtime, which must be installed.

    Parameters
    ----------
    path
        The file.
    inputs
        The arrays of the inputs that `values` does not name, in their order.
    values
        What `from_onnx` was given as ``value_dict``.
    """
    import onnxruntime  # noqa: PLC0415 - an extra
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        feed = {
            each.name: _given(each.name, each.type, each.shape, values[each.name])
            for each in session.get_inputs()
            if each.name in values
        }
        names = [each.name for each in session.get_inputs() if each.name not in values]
        if len(names) != len(inputs):
            return Refused(f"it has {len(names)} inputs for {len(inputs)} parameters")
        feed |= dict(zip(names, inputs, strict=True))
        session.run(None, feed)
    except FAILURES + _errors_of(state) as error:
        return Refused(first_line(error))
    return lambda: session.run(None, feed)


def _given(name: str, type_: str, shape: Sequence[int | str | None], value: object) -> np.ndarray:
    """A value for an input that a session describes so."""
    element = type_.removeprefix("tensor(").removesuffix(")")
    extents = [each if isinstance(each, int) else None for each in shape]
    return fitting(value, np.dtype(_DTYPES.get(element, element)), extents, f"the input {name!r}")


def _errors_of(library: ModuleType) -> tuple[type[Exception], ...]:
    """The exception classes of a library."""
    kinds = [kind for kind in vars(library).values() if isinstance(kind, type)]
    return tuple(kind for kind in kinds if issubclass(kind, Exception))
