"""Asks the C preprocessor for a digest of a text with its headers, and remembers it while they do not change.

A process that builds many modules, as a test suite or a benchmark does, would ask the same for each of them,
and each process that builds one takes longer to ask than to link. As in the direct mode of ccache
(https://ccache.dev/manual/latest.html), the answer holds as long as no file that it was made of has changed,
and no folder in which a header is looked for first. Answers are kept in the process and in the user's private
cache folder, whose entries are verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from annotated_region.cache import load_entry, private_cache_folder, store_entry
from annotated_region.compilation.keys import key_of

__all__ = ["ENTRY", "is_of_its_place", "preprocessed"]

ENTRY = "headers-"
"""How the names of the entries of the cache folder begin."""

KEPT = 32
"""Texts whose answers are kept in the process; a module has two or three."""

SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables of the environment that name folders of headers."""

SYSTEM = ("/usr/local/include", "/usr/include")
"""Folders that compilers search besides, as far as packages are installed there."""

RECENT = 20_000_000
"""Nanoseconds before a run within which a change may have the same time as one during the run."""

_LINE_MARKER = re.compile(rb'^# \d+ "((?:[^"\\]|\\.)*)".*\n?', re.MULTILINE)
_EMPTY_LINES = re.compile(rb"\n\s*\n")
# What depends on the place of a text, or on the time. A header in angle brackets that is looked for is known
# by its state, and `__has_include` alone, as in `defined(__has_include)`, asks for none.
_OF_ITS_PLACE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[^<\s]|__FILE__|__DATE__|__TIME|__has_include(?!\s*\(\s*<|\))", re.MULTILINE
)
_LOOKED_FOR = re.compile(r"__has_include\s*\(\s*<([^>\n]+)>")

Signature = tuple[int, int, int]
States = tuple[tuple[str, Signature | None], ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The digest of a preprocessed text, with the state of each file and folder that it depends on."""

    digest: str
    states: States

    def holds(self) -> bool:
        return all(_signature(path) == state for path, state in self.states)

    def to_json(self) -> bytes:
        return json.dumps([self.digest, self.states]).encode()

    @staticmethod
    def from_json(content: bytes) -> _Answer:
        digest, states = json.loads(content)
        return _Answer(
            digest, tuple((path, None if state is None else tuple(state)) for path, state in states)
        )


_answers: dict[str, _Answer] = {}
_lock = Lock()


def is_of_its_place(text: str) -> bool:
    """Whether more than the text decides: what is beside the file, its name, or the time."""
    return _OF_ITS_PLACE.search(text) is not None


def preprocessed(command: Sequence[str], source: Path) -> str:
    """A digest of a source without directives, but for definitions if the command asks for these.

    Parameters
    ----------
    command
        The compiler with its options.
    source
        The file.

    Raises
    ------
    OSError
        The source cannot be read, or the compiler cannot be started.
    subprocess.CalledProcessError
        The preprocessor rejects the source.
    """
    text = source.read_text(encoding="utf-8")
    if is_of_its_place(text):
        return _run(command, source)[0]
    searched = (os.environ.get(name, "") for name in SEARCHED)
    key = key_of("1", *command, "", source.suffix, text, *searched)
    known = _known(key)
    if known is not None:
        return known.digest
    begin = time.time_ns()
    digest, files = _run(command, source)
    folders = {*_folders(command), *SYSTEM}
    # A header that is looked for, and is nowhere yet, may be written into a folder below the searched ones.
    looked_for = {f"{folder}/{name}" for folder in folders for name in _LOOKED_FOR.findall(text)}
    states = _states({*folders, *looked_for, *files} - {str(source)})
    if all(state is None or state[0] < begin - RECENT for _, state in states):
        _keep(key, _Answer(digest, states))
    return digest


def _known(key: str) -> _Answer | None:
    """An answer that holds: of this process, or of the cache folder."""
    with _lock:
        known = _answers.get(key)
    if known is not None and known.holds():
        return known
    folder = private_cache_folder()
    content = None if folder is None else load_entry(folder / f"{ENTRY}{key}")
    if content is None:
        return None
    known = _Answer.from_json(content)
    if not known.holds():
        return None
    _remember(key, known)
    return known


def _keep(key: str, answer: _Answer) -> None:
    _remember(key, answer)
    folder = private_cache_folder()
    if folder is not None:
        with suppress(OSError):  # a full disk, or a removed folder: this process has its answer
            store_entry(folder / f"{ENTRY}{key}", answer.to_json())


def _remember(key: str, answer: _Answer) -> None:
    with _lock:
        _answers[key] = answer
        while len(_answers) > KEPT:
            del _answers[next(iter(_answers))]


def _run(command: Sequence[str], source: Path) -> tuple[str, set[str]]:
    """A digest of the preprocessed text without line markers and empty lines, and the files it is made of."""
    finished = subprocess.run([*command, "-E", str(source)], capture_output=True, check=True).stdout
    names = {os.fsdecode(name) for name in _LINE_MARKER.findall(finished)}
    # "<built-in>" and its kind are no files.
    files = {name for name in names if not name.startswith("<")}
    text = _EMPTY_LINES.sub(b"\n", _LINE_MARKER.sub(b"", finished))
    return hashlib.sha256(text).hexdigest(), files


def _folders(command: Sequence[str]) -> Iterator[str]:
    """The folders of ``-I`` and its kind, and those that the environment names."""
    for word, following in zip(command, (*command[1:], ""), strict=True):
        for option in ("-iquote", "-isystem", "-idirafter", "-I"):
            if word.startswith(option):
                yield word.removeprefix(option) or following
    for name in SEARCHED:
        yield from filter(None, os.environ.get(name, "").split(os.pathsep))


def _states(paths: Iterable[str]) -> States:
    return tuple((path, _signature(path)) for path in sorted(paths))


def _signature(path: str) -> Signature | None:
    """What changes when a file is written, or an entry of a folder; None if there is no such thing."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino
