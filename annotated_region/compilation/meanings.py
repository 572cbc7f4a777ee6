"""The part of an object's cache key that its source determines: its text, and the included headers.

The preprocessed text would be a complete key, but running the preprocessor takes longer than linking a cached
object, and the units of a module, one per region, include the same headers. So only the directives of a unit
are preprocessed, with the macros that the headers define, once for all units with the same directives; the
rest of the unit is hashed verbatim:

    #include "tables.h"                      preprocessed, with macros
    const int shape[] = {1, 3, 224, 224};    verbatim

A text in which a line may only look like a directive, and one that uses its file name or compile time, is
preprocessed as a whole.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from annotated_region.compilation.preprocessing import is_of_its_place, preprocessed

__all__ = ["Compiler", "Meanings"]

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\\n|\\.)*", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//.*\n?", re.MULTILINE)
# Block comments and raw strings may contain text that looks like a directive or a comment.
_UNCLEAR = re.compile(r'/\*|R"|//[^\n]*\\\n|__FILE__|__DATE__|__TIME')
_GNU = re.compile(r"^gcc version (\d+)", re.MULTILINE)
_TARGET = re.compile(r"^Target: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler, and what it reports of itself: version, target and configuration."""

    path: str
    version: str

    @staticmethod
    def at(path: str) -> Compiler:
        """The compiler at a path; runs it for its version.

        Raises
        ------
        OSError
            The compiler cannot be started.
        subprocess.CalledProcessError
            The compiler does not report a version.
        """
        # The words are translated elsewhere, and go to the standard error.
        environment = {**os.environ, "LC_ALL": "C"}
        run = subprocess.run([path, "-v"], capture_output=True, check=True, env=environment)
        return Compiler(path, (run.stdout + run.stderr).decode(errors="replace"))

    @property
    def gnu(self) -> int | None:
        """The major version of GCC; None for another compiler."""
        found = _GNU.search(self.version)
        return int(found[1]) if found else None

    @property
    def machine(self) -> str | None:
        """The processor of a target that runs Linux with the GNU C library; None for another target."""
        found = _TARGET.search(self.version)
        words = found[1].split("-") if found else []
        return words[0] if "linux" in words and words[-1] in ("linux", "gnu") else None


class Meanings:
    """Computes the keys of the sources of one library with one compiler; thread-safe.

    Parameters
    ----------
    compiler
        The compiler.
    options
        Its options.
    folder
        A folder for temporary files.
    """

    def __init__(self, compiler: Compiler, options: Sequence[str], folder: Path) -> None:
        self.compiler = compiler
        self.options = tuple(options)
        self.folder = folder
        self._headers: dict[tuple[str, ...], str] = {}
        self._lock = Lock()

    def of(self, source: Path) -> list[str]:
        """The key of a source; two sources have equal keys only if their objects are equal.

        Raises
        ------
        OSError
            The source cannot be read, or the compiler cannot be started.
        subprocess.CalledProcessError
            The preprocessor rejects the source.
        """
        text = source.read_text(encoding="utf-8")
        if _UNCLEAR.search(text):
            return [self._preprocessed(source)]
        return [_COMMENT.sub("", text), self._included(source, "\n".join(_DIRECTIVE.findall(text)))]

    def _included(self, source: Path, directives: str) -> str:
        """A digest of the preprocessed directives with their macros, seen from the folder of the source."""
        beside = ("-iquote", str(source.parent)) if is_of_its_place(directives) else ()
        key = (directives, source.suffix, *beside)
        with self._lock:
            if key not in self._headers:
                file = self.folder / f"directives{len(self._headers)}{source.suffix}"
                file.write_text(directives + "\n", encoding="utf-8")
                self._headers[key] = self._preprocessed(file, "-dD", *beside)
            return self._headers[key]

    def _preprocessed(self, source: Path, *more: str) -> str:
        return preprocessed([self.compiler.path, *self.options, *more], source)
