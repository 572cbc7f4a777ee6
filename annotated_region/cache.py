"""The user's cache folder: private, and believed only as far as it is whole and the user's own.

What lies in it is linked into programs and run. An entry is a file that begins with a digest of its name and
its content. It is used if all of this holds; otherwise it is removed, and a `CacheWarning` tells why:

1. the folder and the entry belong to the user, and nobody else may write to them;
2. the folder is no symbolic link, and the entry is a regular file: no link, no folder, no pipe;
3. name and content are those that the digest was made of: the entry is whole, and of the thing asked for.

A new entry is moved into its place when it is whole, so that other processes see all of it or nothing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from annotated_region.errors import CacheWarning

__all__ = [
    "alone",
    "cache_folder",
    "distrusted_folder",
    "load_entry",
    "private_cache_folder",
    "store_entry",
    "sweep",
]

_OTHERS_MAY_WRITE = 0o022
_MAGIC = b"annotated-region cache 1\n"
_HEAD_BYTES = len(_MAGIC) + 2 * hashlib.sha256().digest_size
_UNFINISHED = "unfinished-"
_LOCK = ".lock"
# Writing one entry never takes as long; what is older was left by a process that was killed.
_OLD_SECONDS = 3600.0


def cache_folder() -> Path:
    """Where this package keeps what it can make again: ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "annotated-region"


def private_cache_folder(*names: str) -> Path | None:
    """The cache folder, or one inside of it, made if need be; None if it cannot be made or is not private.

    Warns
    -----
    CacheWarning
        It is there, and is not the user's own alone.
    """
    try:
        folder = cache_folder()
    except RuntimeError:  # the user has no home
        return None
    for place in (folder, *(folder.joinpath(*names[:count]) for count in range(1, len(names) + 1))):
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            reason = distrusted_folder(place)
        except OSError:
            return None
        if reason:
            _tell(
                f"the cache folder {place} is not used, because it {reason}; nothing is kept between builds"
            )
            return None
    return folder.joinpath(*names)


def distrusted_folder(path: Path) -> str | None:
    """Why a folder is not the user's own alone; None if it is.

    Raises
    ------
    OSError
        There is nothing at that path, or it cannot be looked at.
    """
    return _distrust(path.lstat(), stat.S_ISDIR, "folder")


def load_entry(path: Path) -> bytes | None:
    """The content of an entry; None if there is none, or none that can be believed.

    Warns
    -----
    CacheWarning
        There was something that cannot be believed; it is removed.
    """
    try:
        content, reason = _checked(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        content, reason = b"", "is a symbolic link" if is_link else f"cannot be read ({error.strerror})"
    if reason is None:
        return content
    _remove(path)
    _tell(f"the cached file {path} {reason}; it is removed and made anew")
    return None


def _checked(path: Path) -> tuple[bytes, str | None]:
    """The content of an entry, and why it cannot be believed, or None."""
    # Nothing is followed, and a pipe does not keep this process waiting.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if reason := _distrust(os.fstat(handle), stat.S_ISREG, "regular file"):
            return b"", reason
        with os.fdopen(handle, "rb", closefd=False) as file:
            whole = file.read()
        os.utime(handle)  # the entries that were used longest ago go first
    finally:
        os.close(handle)
    content = whole[_HEAD_BYTES:]
    return content, None if whole[:_HEAD_BYTES] == _head(path.name, content) else "is damaged"


def store_entry(path: Path, content: bytes) -> None:
    """Put an entry into its place, instead of whatever is there.

    Raises
    ------
    OSError
        It cannot be written; what was there stays.
    """
    handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_head(path.name, content) + content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of an entry, so that of several processes that miss it one makes it and the others wait.

    A process that dies gives its lock back. Where files cannot be locked, there is no waiting.
    """
    lock = path.with_name(path.name + _LOCK)
    handle = _locked(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            lock.unlink(missing_ok=True)
            os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what killed processes have left: entries half written, and locks that no process holds."""
    for path in folder.iterdir():
        if path.name.startswith((_UNFINISHED, "tmp")) and _is_old(path):
            _remove(path)
        elif (
            path.name.endswith(_LOCK) and (handle := _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)) is not None
        ):
            path.unlink(missing_ok=True)
            os.close(handle)


def _locked(lock: Path, how: int) -> int | None:
    """A handle that holds the lock; None if it cannot be had."""
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(handle, how)
        except OSError:
            os.close(handle)
            return None
        except KeyboardInterrupt:
            os.close(handle)
            raise
        # The previous owner has removed the file: then the lock is one of a file that no other process finds.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), lock.lstat()):
                return handle
        os.close(handle)


def _distrust(info: os.stat_result, is_right_kind: Callable[[int], bool], kind: str) -> str | None:
    if not is_right_kind(info.st_mode):
        return f"is no {kind}"
    if info.st_uid != os.getuid():
        return f"belongs to another user (number {info.st_uid})"
    return "can be written by others" if info.st_mode & _OTHERS_MAY_WRITE else None


def _head(name: str, content: bytes) -> bytes:
    """What stands in front of the content; always of one length."""
    return _MAGIC + hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest()


def _tell(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=2)


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _OLD_SECONDS
    except FileNotFoundError:  # another process sweeps, too
        return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
