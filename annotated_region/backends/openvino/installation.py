"""Detects the installed OpenVINO, and says what to install if it is missing."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from annotated_region.backends.onnx_emitter.packages import missing_packages, required_package

if TYPE_CHECKING:
    import openvino

__all__ = ["PACKAGE", "core", "require_library", "unavailable"]

PACKAGE = "openvino"


def unavailable() -> str | None:
    """Why regions for OpenVINO cannot run on this machine, with a remedy; None if they can."""
    return missing_packages(PACKAGE, "onnx")


def require_library() -> ModuleType:
    """The module ``openvino``.

    Raises
    ------
    BackendUnavailableError
        It is not installed.
    """
    return required_package("openvino", PACKAGE, unavailable)


@cache
def core() -> openvino.Core:
    """OpenVINO's core, which holds the plugins; one per process.

    Raises
    ------
    BackendUnavailableError
        OpenVINO is not installed.
    """
    made: openvino.Core = require_library().Core()
    return made
