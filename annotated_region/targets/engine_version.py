"""The version of a target's library, which measured times and locks depend on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from annotated_region.targets.backend import backend_of

__all__ = ["library_version"]


def library_version(target: str) -> str:
    """The distribution that holds the library of a target, with its version.

    Returns
    -------
    Such as ``"onednn-cpu-gomp-2023.2.0"``; with ``"none"`` for the version where it is not installed, and
    ``"-"`` for a target without a library of its own.

    Raises
    ------
    UnknownTargetError
        The target is not registered.
    """
    package = backend_of(target).package
    if package is None:
        return "-"
    try:
        return f"{package}-{version(package)}"
    except PackageNotFoundError:
        return f"{package}-none"
