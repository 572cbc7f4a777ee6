"""Atomic file writes: a file is written whole or not at all, even if the writer is interrupted."""

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
    """A temporary path that replaces `path` when the block ends, and is removed if the block raises.

    It has the same file name, in a temporary folder beside `path`. Special files such as ``/dev/stdout`` are
    written directly; a symbolic link stays, and its target is replaced.

    Raises
    ------
    OSError
        The folder cannot be written to, or `path` is a folder.
    """
    try:
        file = Path(path).resolve()
    except RuntimeError as error:  # raised by Python up to 3.12 for a cycle of links
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if file.exists() and not file.is_file():
        yield file
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=file.parent)
    except OSError as error:  # the message would name the temporary path, which the caller does not know
        raise type(error)(error.errno, error.strerror, str(path)) from error
    with folder:
        unfinished = Path(folder.name, file.name)
        yield unfinished
        unfinished.replace(file)


def write_whole(path: str | Path, text: str) -> None:
    """Write a string as UTF-8, with escapes for lone surrogates; raises as `whole_file` does."""
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")


def sweep_unfinished(path: str | Path, process: int) -> None:
    """Remove the temporary folder that a killed process left beside the file that it was writing."""
    for folder in Path(path).resolve().parent.glob(f"{_PREFIX}{process}-*"):
        shutil.rmtree(folder, ignore_errors=True)
