"""The files of installed wheels, whose lists are parsed again only when they change.

Each build looks for the libraries and headers of its engines, and to parse the list of a large wheel takes
longer than to generate the code of a small region. To read its text takes little.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, PackagePath, distribution

__all__ = ["installed_files"]


def installed_files(wheel: str) -> tuple[PackagePath, ...]:
    """The files that a wheel has installed, as its metadata lists them; none if it is not installed.

    Their names are relative; the method `locate` of each gives the place.
    """
    try:
        found = distribution(wheel)
    except PackageNotFoundError:
        return ()
    return _parsed(wheel, str(found.locate_file("")), found.read_text("RECORD"))


@lru_cache(maxsize=16)
def _parsed(wheel: str, _place: str, _text: str | None) -> tuple[PackagePath, ...]:
    """The list of a wheel; place and text tell one installation from the next."""
    return tuple(distribution(wheel).files or ())
