"""An in-memory file that passes weights from a child to its parent without copies in the parent.

The parent creates it and fixes its size; untouched pages cost nothing. The child writes through
mappings, because the limit that prevents it from writing files also applies to `write` here. After the child
has ended, the parent seals the file: no process can change it any more, even with an open descriptor.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource

__all__ = ["made", "room_in", "sealed", "write"]


def made(most: int) -> int:
    """A descriptor of a new in-memory file of `most` bytes, or of this process's file size
    limit if smaller.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = os.memfd_create("weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, most if allowed == resource.RLIM_INFINITY else min(most, allowed))
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return file


def room_in(file: int) -> int:
    """The size of the file in bytes."""
    return os.fstat(file).st_size


def write(file: int, position: int, part: memoryview) -> None:
    """Write bytes at a position."""
    begin = position - position % mmap.ALLOCATIONGRANULARITY
    with mmap.mmap(file, position - begin + part.nbytes, offset=begin) as window:
        window[position - begin :] = part


def sealed(file: int, length: int) -> mmap.mmap:
    """Seal the file and map its first bytes privately: writes to the mapping do not reach the file.

    Raises
    ------
    OSError
        A process still has a writable mapping of the file.
    ValueError
        The file is shorter than `length`.
    """
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    return mmap.mmap(file, max(length, 1), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
