"""ONNX Runtime without Python: the shared library in its wheel, and the settings for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from annotated_region.backends.onnx_emitter.native_runtime import NativeRuntime
from annotated_region.backends.onnxruntime.installation import PACKAGE
from annotated_region.backends.onnxruntime.session import EXACT, INEXACT_REWRITES, SessionSettings
from annotated_region.targets.backend import BuildOptions, NeededLibrary
from annotated_region.targets.installed_files import installed_files

__all__ = ["RUNTIME", "build_options", "library", "native_settings", "needs_python"]

RUNTIME = NativeRuntime(PACKAGE, files("annotated_region.backends.onnxruntime") / "cpp" / "session.h")

_ONLY_PROVIDER = ("CPUExecutionProvider",)
_LEVELS = {"disable_all": 0, "basic": 1, "extended": 2, "all": 99}
"""The numbers of ONNX Runtime's C interface."""


def library() -> NeededLibrary | None:
    """ONNX Runtime's shared library; None if the wheel has none, as before about version 1.30."""
    for file in installed_files(PACKAGE):
        if file.name.startswith("libonnxruntime.so"):
            place = Path(str(file.locate())).resolve()
            return NeededLibrary(file.name, place, PACKAGE) if place.is_file() else None
    return None


def build_options() -> BuildOptions:
    """The compiler options for regions, and the library that they load."""
    found = library()
    return RUNTIME.build_options(() if found is None else (found,))


def needs_python(options: Mapping[str, object]) -> str | None:
    """Why regions built with these options run only in Python processes; None if they do not need Python."""
    providers = SessionSettings.of(options).providers
    if providers != _ONLY_PROVIDER:
        return f"execution provider {providers[0] if providers else 'none'} is accessible only from Python"
    if library() is None:
        return "the installed onnxruntime has no shared library beside its module; install a newer one"
    return None


def native_settings(settings: SessionSettings) -> dict[str, str]:
    """The settings for the C++ runtime; names with a dot are ONNX Runtime's session configuration entries."""
    return {
        "threads": str(settings.threads),
        "optimization": str(_LEVELS[settings.optimization]),
        "session.intra_op.allow_spinning": str(int(settings.spinning)),
        "optimization.disable_specified_optimizers": ";".join((*INEXACT_REWRITES, *settings.disabled)),
        **EXACT,
    }
