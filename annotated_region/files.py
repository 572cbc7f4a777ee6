"""Files that are written whole or not at all, whatever interrupts the writer."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["sweep_unfinished", "whole_file", "write_whole"]

_PREFIX = ".unfinished-"


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` when the block ends, and is gone when it fails.

    It lies beside `path`, in a folder of its own, under the same name. What is no regular file, such as
    ``/dev/stdout``, is written to directly; a symbolic link stays, and the file that it names is replaced.

    Raises
    ------
    OSError
        The folder cannot be written to, or `path` is a folder.
    """
    try:
        file = Path(path).resolve()
    except RuntimeError as error:  # of Python up to 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if file.exists() and not file.is_file():
        yield file
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=file.parent)
    except OSError as error:  # it names the temporary path, which the caller does not know
        raise type(error)(error.errno, error.strerror, str(path)) from error
    with folder:
        unfinished = Path(folder.name, file.name)
        yield unfinished
        unfinished.replace(file)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, what that cannot say as escapes; errors are those of `whole_file`."""
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")


def sweep_unfinished(path: str | Path, process: int) -> None:
    """Remove what a process that was killed has left beside the file that it was writing."""
    for folder in Path(path).resolve().parent.glob(f"{_PREFIX}{process}-*"):
        shutil.rmtree(folder, ignore_errors=True)
