"""Engines and timings in the user's cache folder: trusted only if whole, and made here for the same thing."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from annotated_region.cache import private_cache_folder

__all__ = ["load", "store"]

_MAGIC = b"annotated-region tensorrt 1\n"


def load(key: str) -> bytes | None:
    """What is stored under a key; None if there is nothing, or nothing that can be trusted."""
    folder = _folder()
    if folder is None:
        return None
    try:
        data = (folder / _name(key)).read_bytes()
    except OSError:
        return None
    head = _head(key, data[len(_head(key, b"")) :])
    return data[len(head) :] if data.startswith(head) else None


def store(key: str, content: bytes) -> None:
    """Store content under a key; readers in other processes see all of it or none. A failure costs time."""
    folder = _folder()
    if folder is None:
        return
    try:
        handle, path = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_head(key, content) + content)
        Path(path).replace(folder / _name(key))
    except OSError:
        return


def _folder() -> Path | None:
    base = private_cache_folder()
    if base is None:
        return None
    folder = base / "tensorrt"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _head(key: str, content: bytes) -> bytes:
    """What stands in front of the content: whose it is, and what it adds up to; always of one length."""
    return _MAGIC + hashlib.sha256(key.encode()).digest() + hashlib.sha256(content).digest()
