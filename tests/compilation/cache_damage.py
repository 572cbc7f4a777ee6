"""Ways to damage an entry of the cache, for tests and for the campaign."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["DAMAGES"]


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


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "truncated": lambda path, chance: os.truncate(path, chance.randrange(path.stat().st_size)),
    "emptied": lambda path, chance: os.truncate(path, 0),
    "garbage": lambda path, chance: path.write_bytes(chance.randbytes(chance.randrange(1, 5000))) and None,
    "a byte flipped": _flip,
    "longer": lambda path, chance: path.write_bytes(path.read_bytes() + b"\0") and None,
    "others may write": lambda path, chance: path.chmod(chance.choice((0o620, 0o602, 0o666, 0o777))),
    "a folder": _to_folder,
    "a link": _to_link,
    "a pipe": _to_pipe,
}
"""By name, what each does to the file of an entry."""

if os.getuid() == 0:
    DAMAGES["of another user"] = _other_owner
