"""The contents of the user's cache folder: counted by kind, and removed. Links are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from annotated_region.cache import cache_folder, distrusted_folder
from annotated_region.errors import CacheError

__all__ = ["KindOfEntry", "contents", "removed"]

_OBJECTS, _COSTS, _OTHERS = "objects", "costs", "others"
_NO_ENTRIES = (".lock",)


@dataclass(frozen=True, slots=True)
class KindOfEntry:
    """The entries of one kind.

    Attributes
    ----------
    kind
        ``objects`` (compiled C++, libraries linked of it, and digests of its headers), ``costs`` (measured
        times), the name of a target (what its library has compiled), or ``others``.
    entries
        Number of files.
    bytes
        Their total size.
    """

    kind: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    kind: str
    bytes: int
    used: float


def contents() -> list[KindOfEntry]:
    """The cached entries by kind; empty if the folder does not exist.

    Raises
    ------
    CacheError
        The folder is not private to the user.
    """
    return _by_kind(list(_entries()))


def removed(before: float) -> list[KindOfEntry]:
    """Remove entries not used since `before`, in seconds since the epoch; the removed entries, by kind.

    Entries can be rebuilt, and a process that has one open keeps using it. Entries that cannot be removed
    stay, and are not counted.

    Raises
    ------
    CacheError
        The folder is not private to the user.
    """
    gone = []
    for entry in [each for each in _entries() if each.used < before]:
        with suppress(OSError):
            entry.path.unlink()
            gone.append(entry)
    return _by_kind(gone)


def _by_kind(entries: list[_Entry]) -> list[KindOfEntry]:
    kinds = sorted({entry.kind for entry in entries})
    sizes = {kind: [entry.bytes for entry in entries if entry.kind == kind] for kind in kinds}
    return [KindOfEntry(kind, len(sizes[kind]), sum(sizes[kind])) for kind in kinds]


def _entries() -> Iterator[_Entry]:
    """All files in the folder and in those of its subfolders that are private to the user."""
    folder = cache_folder()
    try:
        reason = distrusted_folder(folder)
    except FileNotFoundError:
        return
    if reason:
        raise CacheError(f"the cache folder {folder} {reason}; repair or remove it yourself")
    yield from _files_in(folder, None)


def _files_in(folder: Path, kind: str | None) -> Iterator[_Entry]:
    for path in sorted(folder.iterdir()):
        try:
            info = path.lstat()
        except FileNotFoundError:  # another process is removing entries, too
            continue
        if not stat.S_ISDIR(info.st_mode):
            if not path.name.endswith(_NO_ENTRIES):  # only the holder of a lock may remove its file
                yield _Entry(path, kind or _kind_of(path.name), info.st_size, info.st_mtime)
        elif distrusted_folder(path) is None and os.access(path, os.R_OK | os.X_OK):
            yield from _files_in(path, kind or path.name)


def _kind_of(name: str) -> str:
    if name.startswith(("object-", "library-", "headers-")):
        return _OBJECTS
    return _COSTS if name.startswith("costs.sqlite3") else _OTHERS
