"""Opens files that a user names; only regular files are accepted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from annotated_region.errors import ModelError

__all__ = ["opened"]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a regular file. Pipes and devices are rejected, because reading them could block
    forever.

    Raises
    ------
    ModelError
        The file cannot be read, or is not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a pipe blocks until a writer opens it.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r} is not a path: {error}") from error
    try:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise ModelError(f"{path} cannot be read: it is a folder")
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ModelError(f"{path} is not a regular file, but a pipe, a socket or a device")
        yield file
    finally:
        os.close(file)
