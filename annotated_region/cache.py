"""The user's cache folder: private, because what lies in it is linked into programs."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "private_cache_folder"]

_OTHERS_MAY_WRITE = 0o022


def cache_folder() -> Path:
    """Where this package keeps what it can make again: ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "annotated-region"


def private_cache_folder() -> Path | None:
    """The cache folder, made if need be; None if it cannot be made or if others could write into it."""
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError:
        return None
    return folder if info.st_uid == os.getuid() and not info.st_mode & _OTHERS_MAY_WRITE else None
