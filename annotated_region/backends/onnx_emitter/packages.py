"""The Python packages that targets need at run time: whether they are installed, and how to install them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from annotated_region.errors import BackendUnavailableError

__all__ = ["is_installed", "missing_packages", "required_package"]


def is_installed(name: str) -> bool:
    """Whether a package of this name is installed; a namespace folder of the same name has no origin."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def missing_packages(*names: str) -> str | None:
    """Which of some packages are not installed, with a remedy; None if all are."""
    missing = [name for name in names if not is_installed(name)]
    return f"{' and '.join(missing)} not installed; pip install {' '.join(missing)}" if missing else None


def required_package(target: str, package: str, unavailable: Callable[[], str | None]) -> ModuleType:
    """The module of the library of a target.

    Raises
    ------
    BackendUnavailableError
        `unavailable` gives a reason why the target cannot run on this machine.
    """
    reason = unavailable()
    if reason is not None:
        raise BackendUnavailableError(f"target {target!r}: {reason}")
    return import_module(package)
