"""Compiled models in the user's cache folder; an entry is used only if it is intact and has its key."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from annotated_region.cache import load_entry, private_cache_folder, store_entry, sweep

__all__ = ["load", "store"]


def load(target: str, key: str) -> bytes | None:
    """The content that a target stored under a key; None if there is none, or if it is not intact."""
    place = _place(target, key)
    return None if place is None else load_entry(place)


def store(target: str, key: str, content: bytes) -> None:
    """Store content under a key. A failure only costs time: the next process compiles again."""
    place = _place(target, key)
    if place is None:
        return
    with suppress(OSError):
        store_entry(place, content)
        sweep(place.parent)


def _place(target: str, key: str) -> Path | None:
    folder = private_cache_folder(target)
    return None if folder is None else folder / hashlib.sha256(key.encode()).hexdigest()
