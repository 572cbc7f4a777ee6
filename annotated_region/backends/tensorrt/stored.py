"""Engines and timings in the user's cache folder: trusted only if whole, and made here for the same thing."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from annotated_region.cache import load_entry, private_cache_folder, store_entry, sweep

__all__ = ["load", "store"]


def load(key: str) -> bytes | None:
    """What is stored under a key; None if there is nothing, or nothing that can be trusted."""
    place = _place(key)
    return None if place is None else load_entry(place)


def store(key: str, content: bytes) -> None:
    """Store content under a key. A failure costs time: the next process builds again."""
    place = _place(key)
    if place is None:
        return
    with suppress(OSError):
        store_entry(place, content)
        sweep(place.parent)


def _place(key: str) -> Path | None:
    folder = private_cache_folder("tensorrt")
    return None if folder is None else folder / hashlib.sha256(key.encode()).hexdigest()
