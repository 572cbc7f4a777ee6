"""The user's cache folder: private, and its entries are verified before use.

Cached objects are linked into programs and run, so a forged entry could execute code. Each entry file
begins with a digest of its name and its content, and is used only if all of these hold; otherwise it is
removed with a `CacheWarning` that gives the reason:

1. the folder and the entry belong to the user, and no other user may write to them;
2. the folder is not a symbolic link, and the entry is a regular file: no link, directory or pipe;
3. the digest matches name and content: the entry is complete, and is the one that was asked for.

A new entry is written to a temporary file and renamed into place, so other processes see all of it or
nothing.
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
# Writing one entry never takes this long; an older temporary file was left by a killed process.
_OLD_SECONDS = 3600.0


def cache_folder() -> Path:
    """The folder for everything this package can recompute: under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "annotated-region"


def private_cache_folder(*names: str) -> Path | None:
    """The cache folder or a subfolder, created if missing; None if it cannot be created or is not private.

    Warns
    -----
    CacheWarning
        The folder exists, but other users may write to it or own it.
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
            _warn(
                f"the cache folder {place} is not used, because it {reason}; nothing is cached between builds"
            )
            return None
    return folder.joinpath(*names)


def distrusted_folder(path: Path) -> str | None:
    """Why a folder is not private to the user; None if it is.

    Raises
    ------
    OSError
        The path does not exist, or its status cannot be read.
    """
    return _distrust(path.lstat(), stat.S_ISDIR, "folder")


def load_entry(path: Path) -> bytes | None:
    """The content of an entry; None if it does not exist or fails verification.

    Warns
    -----
    CacheWarning
        The entry failed verification; it is removed.
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
    _warn(f"the cached file {path} {reason}; it is removed and rebuilt")
    return None


def _checked(path: Path) -> tuple[bytes, str | None]:
    """The content of an entry, and why it fails verification, or None."""
    # Do not follow links, and do not block on a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if reason := _distrust(os.fstat(handle), stat.S_ISREG, "regular file"):
            return b"", reason
        with os.fdopen(handle, "rb", closefd=False) as file:
            whole = file.read()
        os.utime(handle)  # entries are evicted by last use
    finally:
        os.close(handle)
    content = whole[_HEAD_BYTES:]
    return content, None if whole[:_HEAD_BYTES] == _head(path.name, content) else "is damaged"


def store_entry(path: Path, content: bytes) -> None:
    """Write an entry, replacing an existing one atomically.

    Raises
    ------
    OSError
        It cannot be written; an existing entry is left as it was.
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
    """Hold the lock of an entry, so that of several processes that miss it one builds it and the others wait.

    The lock is released when its process dies. On file systems without locks there is no waiting.
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
    """Remove what killed processes left behind: unfinished entries, and locks that no process holds."""
    names = os.listdir(folder)  # not paths: of thousands of entries, few are left over
    for path in (folder / name for name in names if name.startswith((_UNFINISHED, "tmp"))):
        if _is_old(path):
            _remove(path)
    for path in (folder / name for name in names if name.endswith(_LOCK)):
        if (handle := _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)) is not None:
            path.unlink(missing_ok=True)
            os.close(handle)


def _locked(lock: Path, how: int) -> int | None:
    """A file descriptor that holds the lock; None if it cannot be acquired."""
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
        # The previous owner may have unlinked the file meanwhile; then this lock is on a file that no other
        # process can open, and the loop starts over.
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
    """The fixed-size header of an entry."""
    return _MAGIC + hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest()


def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=2)


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _OLD_SECONDS
    except FileNotFoundError:  # another process is sweeping, too
        return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
