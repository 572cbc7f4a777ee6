"""Ways to damage an entry of the cache, and a library built of two, for tests and for the campaign."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.targets.backend import LinkedSource

__all__ = ["DAMAGES", "Compiler", "answer"]

# What is compiled once defines `base`; the unit brings it along where that is not linked.
BASE = "int base() { return 40; }\n"
UNIT = f"""#ifdef LINKED
int base();
#else
{BASE}#endif
extern "C" int answer() {{ return base() + 2; }}
"""
RUNTIME = LinkedSource(BASE, ("-O1",), ("headers 1",), "LINKED")

COMPILER = """#!/bin/sh
for word; do [ "$word" = -c ] && echo compiled >> {log}; done
exec g++ "$@"
"""


class Compiler:
    """A compiler that counts the objects that it makes."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.path = folder / "compiler"
        self.path.write_text(COMPILER.format(log=self.log))
        self.path.chmod(0o755)

    def runs(self) -> int:
        """How many objects it has made."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def answer(folder: Path, compiler: Compiler) -> int:
    """What a library says that is built now, in a new folder: 42."""
    folder.mkdir()
    (folder / "lib0.cc").write_text(UNIT)
    library = folder / "library.so"
    SharedLibraryLinker([RUNTIME])(str(library), [str(folder / "lib0.cc")], cc=str(compiler.path))
    return int(ctypes.CDLL(str(library)).answer())


def _flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _to_folder(path: Path, _chance: random.Random) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def _to_link(path: Path, chance: random.Random) -> None:
    """A link to a whole entry, of someone who may change it later."""
    copy = path.parent.parent / f"copy-{chance.random()}"
    shutil.move(path, copy)
    path.symlink_to(copy)


def _to_pipe(path: Path, _chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _other_owner(path: Path, chance: random.Random) -> None:
    os.chown(path, chance.randrange(1000, 60000), -1)


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    "truncated": lambda path, chance: os.truncate(path, chance.randrange(path.stat().st_size)),
    "emptied": lambda path, chance: os.truncate(path, 0),
    "garbage": lambda path, chance: path.write_bytes(chance.randbytes(chance.randrange(1, 5000))),
    "a byte flipped": _flip,
    "longer": lambda path, chance: path.write_bytes(path.read_bytes() + b"\0"),
    "others may write": lambda path, chance: path.chmod(chance.choice((0o620, 0o602, 0o666, 0o777))),
    "a folder": _to_folder,
    "a link": _to_link,
    "a pipe": _to_pipe,
}
"""By name, what each does to the file of an entry."""

if os.getuid() == 0:
    DAMAGES["of another user"] = _other_owner
