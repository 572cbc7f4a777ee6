"""Detects TensorRT and a GPU, and says what to install if they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from annotated_region.backends.onnx_emitter.packages import is_installed, required_package
from annotated_region.backends.tensorrt.cuda import device_problem

__all__ = ["PACKAGE", "needs_python", "require_library", "unavailable"]

PACKAGE = "tensorrt"
REMEDY = "on a machine with an NVIDIA GPU: pip install tensorrt onnx"


def unavailable() -> str | None:
    """Why regions for TensorRT cannot run on this machine, with a remedy; None if they can."""
    for name in (PACKAGE, "onnx"):
        if not is_installed(name):
            return f"{'TensorRT' if name == PACKAGE else name} is not installed; {REMEDY}"
    return _import_problem() or device_problem()


def needs_python(_options: Mapping[str, object]) -> str | None:
    """Why its regions run only in Python processes."""
    return "TensorRT's engines are built and run by its Python package"


@cache
def _import_problem() -> str | None:
    """Why TensorRT's Python bindings cannot be loaded: the library that they bind may be missing."""
    try:
        import_module(PACKAGE)
    except (ImportError, OSError) as error:
        return f"TensorRT's library cannot be loaded ({error}); {REMEDY}"
    return None


def require_library() -> ModuleType:
    """The module ``tensorrt``.

    Raises
    ------
    BackendUnavailableError
        TensorRT or a GPU is missing; the message says what to install.
    """
    return required_package("tensorrt", PACKAGE, unavailable)
