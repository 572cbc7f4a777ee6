"""What an object depends on besides the compiler and its options: the text of its source, and the headers.

The text behind the preprocessor says all of it, but to run the preprocessor costs more than to link what it
finds, and the units of a module, one a region, include the same headers. So the directives of a unit are run
alone, with the macros that the headers define, once for all units that have the same ones; the rest of the
unit counts as it stands:

    #include "tables.h"                      behind the preprocessor, with macros
    const int shape[] = {1, 3, 224, 224};    as it stands

A text in which a line that begins like a directive may be none, and one that says where or when it is
compiled, goes through the preprocessor whole.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

__all__ = ["Compiler", "Meanings"]

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\\n|\\.)*", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//.*\n?", re.MULTILINE)
# Comments over several lines and raw strings may hold what looks like a directive or a comment.
_UNCLEAR = re.compile(r'/\*|R"|//[^\n]*\\\n|__FILE__|__DATE__|__TIME')


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler, and what it says of its version."""

    path: str
    version: bytes

    @staticmethod
    def at(path: str) -> Compiler:
        """The compiler at a path, asked now.

        Raises
        ------
        OSError
            It cannot be started.
        subprocess.CalledProcessError
            It does not say.
        """
        return Compiler(path, subprocess.run([path, "--version"], capture_output=True, check=True).stdout)


class Meanings:
    """Asks one compiler about the sources of one library; threads may share it.

    Parameters
    ----------
    compiler
        The compiler.
    options
        Its options.
    folder
        Where files may be written.
    """

    def __init__(self, compiler: Compiler, options: Sequence[str], folder: Path) -> None:
        self.compiler = compiler
        self.options = tuple(options)
        self.folder = folder
        self._headers: dict[tuple[str, ...], bytes] = {}
        self._lock = Lock()

    def of(self, source: Path) -> list[str | bytes]:
        """What is equal for two sources only if their objects are.

        Raises
        ------
        OSError
            The source cannot be read, or the compiler cannot be started.
        subprocess.CalledProcessError
            The preprocessor refuses the source.
        """
        text = source.read_text(encoding="utf-8")
        if _UNCLEAR.search(text):
            return [self._preprocessed(source)]
        return [_COMMENT.sub("", text), self._included(source, "\n".join(_DIRECTIVE.findall(text)))]

    def _included(self, source: Path, directives: str) -> bytes:
        """What directives bring in, macros included, seen from the folder of a source."""
        key = (directives, source.suffix, str(source.parent))
        with self._lock:
            if key not in self._headers:
                file = self.folder / f"directives{len(self._headers)}{source.suffix}"
                file.write_text(directives + "\n", encoding="utf-8")
                self._headers[key] = self._preprocessed(file, "-dD", "-iquote", str(source.parent))
            return self._headers[key]

    def _preprocessed(self, source: Path, *more: str) -> bytes:
        command = [self.compiler.path, *self.options, *more, "-E", "-P", str(source)]
        return subprocess.run(command, capture_output=True, check=True).stdout
