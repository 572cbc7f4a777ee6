"""Opens a file that a user names, if it is one."""

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
    """A descriptor of a regular file. A pipe or a device under its name would be waited for without end.

    Raises
    ------
    ModelError
        It cannot be read, or is no regular file.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes into it.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r} is no path: {error}") from error
    try:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise ModelError(f"{path} cannot be read: it is a folder")
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ModelError(f"{path} is no regular file but a pipe, a socket or a device")
        yield file
    finally:
        os.close(file)
