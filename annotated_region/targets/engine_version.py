"""The version of a target's library; measured times and locks depend on it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from annotated_region.targets.backend import backend_of

__all__ = ["library_version"]


def library_version(target: str) -> str:
    """The distribution that contains the library of a target, with its version.

    Returns
    -------
    The name and version, such as ``"onednn-cpu-gomp-2023.2.0"``; the version is ``"none"`` if it is not
    installed. ``"-"`` for a target without a library.

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
