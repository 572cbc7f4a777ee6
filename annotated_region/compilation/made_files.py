"""Files that a compiler or a linker makes, kept between builds as entries of the user's private cache folder.

If several processes or threads need the same file, one makes it and the others wait; the least recently used
entries are evicted. The digest of an entry is verified (`annotated_region.cache`), and the build gets a copy
of the verified content, in a folder private to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from annotated_region.cache import alone, load_entry, private_cache_folder, store_entry, sweep
from annotated_region.compilation.keys import KEY_DIGITS, key_of
from annotated_region.compilation.preprocessing import ENTRY

__all__ = ["LIBRARY", "OBJECT", "made_or_taken"]

OBJECT, LIBRARY = "object-", "library-"
"""Prefixes of entries: of objects, and of libraries as they were linked."""
_MODES = {OBJECT: 0o666, LIBRARY: 0o777}
"""Of files that are taken from the cache, as the compiler and the linker make them."""
KEPT_BYTES = 256 << 20
CHECKED_SHARE = 1 / 64
_DRAWN_DIGITS = 8


def made_or_taken(prefix: str, depends_on: tuple[str, ...], place: Path, make: Callable[[], None]) -> bool:
    """Copy an entry to a place, or make the file there and store it; False if nothing can be cached.

    Parameters
    ----------
    prefix
        `OBJECT` or `LIBRARY`.
    depends_on
        Everything that the content depends on.
    place
        The file.
    make
        Writes the file; its errors are passed on.
    """
    folder = private_cache_folder()
    if folder is None:
        return False
    entry = folder / f"{prefix}{key_of(*depends_on)}"
    mode = _MODES[prefix]
    if _taken(entry, place, mode):
        return True
    with alone(entry):
        if _taken(entry, place, mode):  # another process has made it meanwhile
            return True
        make()
        with suppress(OSError):  # a full disk, or a removed folder: this build has its file already
            content = place.read_bytes()
            store_entry(entry, content)
            sweep(folder)
            if _is_time_to_evict(entry, len(content)):
                _make_room(folder)
    return True


def _taken(entry: Path, place: Path, mode: int) -> bool:
    content = load_entry(entry)
    if content is None:
        return False
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
    return True


def _is_time_to_evict(entry: Path, size: int) -> bool:
    """Whether to add up the sizes of all entries: with thousands, that takes as long as to compile one.

    The share of files of `size` bytes that are followed by it is `size` over `CHECKED_SHARE` of what is
    kept, so that the folder exceeds its limit by about that much. The digest decides, not chance: the same
    builds leave the same folder.
    """
    fraction = int(entry.name[-_DRAWN_DIGITS:], 16) / (1 << 4 * _DRAWN_DIGITS)
    return fraction * KEPT_BYTES * CHECKED_SHARE < size


def _make_room(folder: Path) -> None:
    """Evict the least recently used entries until the rest fits; the newest is always kept."""
    known = []
    digits = "?" * KEY_DIGITS
    for path in chain.from_iterable(folder.glob(f"{kind}{digits}") for kind in (*_MODES, ENTRY)):
        try:
            info = path.lstat()
        except FileNotFoundError:  # another process is evicting, too
            continue
        known.append((info.st_mtime_ns, path, info.st_size))
    total = 0
    for index, (_, path, size) in enumerate(sorted(known, reverse=True)):
        total += size
        if index > 0 and total > KEPT_BYTES:
            path.unlink(missing_ok=True)
