"""A file in memory through which weights go from a child to its parent, who reads them where they lie.

The parent makes it and fixes its size; pages that are never written cost nothing. The child writes through
mappings, because the limit that keeps it from writing files holds for `write` here as well. When the child
has ended the parent seals the file: from then on no process can change it, not even one that still holds it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource

__all__ = ["made", "room_in", "sealed", "write"]


def made(most: int) -> int:
    """A descriptor of a new file in memory that takes so many bytes, or as many as this process may write."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = os.memfd_create("weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, most if allowed == resource.RLIM_INFINITY else min(most, allowed))
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return file


def room_in(file: int) -> int:
    """How many bytes the file takes."""
    return os.fstat(file).st_size


def write(file: int, position: int, part: memoryview) -> None:
    """Write some bytes."""
    begin = position - position % mmap.ALLOCATIONGRANULARITY
    with mmap.mmap(file, position - begin + part.nbytes, offset=begin) as window:
        window[position - begin :] = part


def sealed(file: int, length: int) -> mmap.mmap:
    """The first bytes of the file, which no process can change any more; what is written to them stays here.

    Raises
    ------
    OSError
        A process still has the file mapped to write to it.
    ValueError
        It is not as long.
    """
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    return mmap.mmap(file, max(length, 1), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
