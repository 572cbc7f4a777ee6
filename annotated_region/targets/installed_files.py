"""The files of installed wheels, whose lists are parsed again only when they change.

Each build looks for the libraries and headers of its engines several times. To search the path for a wheel,
and to parse the list of a large one, takes longer than to generate the code of a small region. To read its
text takes little.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution

__all__ = ["installed_files"]


def installed_files(wheel: str) -> tuple[PackagePath, ...]:
    """The files that a wheel has installed, as its metadata lists them; none if it is not installed.

    Their names are relative; the method `locate` of each gives the place.
    """
    found = _found(wheel, tuple(map(_state, sys.path)))
    return () if found is None else _parsed(found, found.read_text("RECORD"))


def _state(folder: str) -> tuple[str, int | None]:
    """What changes when a wheel is installed into a folder of the path, or removed; so Python looks, too."""
    place = os.path.abspath(folder)
    try:
        return place, os.stat(place).st_mtime_ns
    except OSError:
        return place, None


@lru_cache(maxsize=64)
def _found(wheel: str, _path: tuple[tuple[str, int | None], ...]) -> Distribution | None:
    try:
        return distribution(wheel)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=16)
def _parsed(found: Distribution, _text: str | None) -> tuple[PackagePath, ...]:
    """The list of an installation, which its text tells from the next one in the same folder."""
    return tuple(found.files or ())
