"""Detects the installed ONNX Runtime, and says what to install if it is missing."""

from __future__ import annotations

from types import ModuleType

from annotated_region.backends.onnx_emitter.packages import missing_packages, required_package

__all__ = ["PACKAGE", "require_library", "unavailable"]

PACKAGE = "onnxruntime"


def unavailable() -> str | None:
    """Why regions for ONNX Runtime cannot run on this machine, with a remedy; None if they can."""
    return missing_packages(PACKAGE, "onnx")


def require_library() -> ModuleType:
    """The module ``onnxruntime``.

    Raises
    ------
    BackendUnavailableError
        It is not installed.
    """
    return required_package("onnxruntime", PACKAGE, unavailable)
