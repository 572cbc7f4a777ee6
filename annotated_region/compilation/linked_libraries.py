"""Keeps libraries as the linker wrote them, before constants are filled in: the same objects are linked once.

The key has the content of each object, the compiler with its version, the options, the environment of the
linker, and the size and the time of each library that an option names. A library is not kept if it depends on
more than that (an option names a file, or a library that is in no folder of ``-L``), or if its objects are
large, as those with constants are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from annotated_region.compilation.made_files import LIBRARY, made_or_taken
from annotated_region.compilation.meanings import Compiler

__all__ = ["link_once"]

LARGEST_BYTES = 32 << 20
_VARIABLES = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LDEMULATION", "LD_RUN_PATH", "LIBRARY_PATH")


def link_once(
    library: Path,
    objects: Sequence[str],
    compiler: Compiler | None,
    options: Sequence[str],
    link: Callable[[], None],
) -> None:
    """Link a library, or take it from the cache.

    Parameters
    ----------
    library
        What `link` writes.
    objects
        What it is linked of.
    compiler
        What links; None if it says nothing of itself.
    options
        The options of compiler and linker, one word each.
    link
        Links the library; its errors are passed on.
    """
    files, libraries = [Path(each) for each in objects], _libraries(options)
    if compiler is None or libraries is None or any(map(_names_a_file, options)) or not _are_small(files):
        link()
        return
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    variables = [f"{name}={os.environ.get(name)}" for name in _VARIABLES]
    parts = (compiler.path, compiler.version, *options, *digests, *variables, *libraries)
    if not made_or_taken(LIBRARY, parts, library, link):
        link()


def _are_small(files: Sequence[Path]) -> bool:
    if any(file.suffix != ".o" or not file.is_file() for file in files):
        return False
    return sum(file.stat().st_size for file in files) <= LARGEST_BYTES


def _names_a_file(word: str) -> bool:
    """Whether an option has a file's name in it, such as a script for the linker."""
    return any(os.path.isfile(part.removeprefix("@")) for part in re.split("[,=]", word))  # of any length


def _libraries(options: Sequence[str]) -> list[str] | None:
    """The libraries that ``-l`` names in folders of ``-L``; None if one is elsewhere."""
    folders = [Path(word[2:]) for word in options if word.startswith("-L")]
    found = []
    for name in (word[2:] for word in options if word.startswith("-l")):
        places = [folder / f"lib{name}{ending}" for folder in folders for ending in (".so", ".a")]
        states = [(place.resolve(), place.stat()) for place in places if place.is_file()]
        if not states:
            return None
        found += [f"{place} {state.st_size} {state.st_mtime_ns}" for place, state in states]
    return found
