"""Detects the installed OpenVINO, and says what to install if it is missing."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from annotated_region.errors import BackendUnavailableError

if TYPE_CHECKING:
    import openvino

__all__ = ["PACKAGE", "core", "require_library", "unavailable"]

PACKAGE = "openvino"
_NEEDED = (PACKAGE, "onnx")


def unavailable() -> str | None:
    """Why regions for OpenVINO cannot run on this machine, with a remedy; None if they can."""
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if not missing:
        return None
    return f"{' and '.join(missing)} not installed; pip install {' '.join(missing)}"


def _is_installed(name: str) -> bool:
    """Whether a package of this name is installed; a namespace folder of the same name has no origin."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def require_library() -> ModuleType:
    """The module ``openvino``.

    Raises
    ------
    BackendUnavailableError
        It is not installed.
    """
    reason = unavailable()
    if reason:
        raise BackendUnavailableError(f"target 'openvino': {reason}")
    return import_module(PACKAGE)


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
