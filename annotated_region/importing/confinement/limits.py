"""The resource limits and the confinement of a process that imports a model."""

from __future__ import annotations

import ctypes
import math
import os
import re
import resource
import signal
from dataclasses import dataclass, fields, replace
from typing import Any

from annotated_region.checked import checked, checked_class
from annotated_region.errors import ModelError

__all__ = ["Limits", "die_with_parent"]

_GIGABYTE = 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)B?", re.IGNORECASE)
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)s?")
# Standard streams, the file, its external data, the result, and a few for the dynamic loader.
_MOST_FILES = 64
# From <linux/prctl.h>.
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


@checked_class
@dataclass(frozen=True, slots=True)
class Limits:
    """The resource limits of an import.

    Attributes
    ----------
    memory
        Bytes of memory, in addition to the memory of TVM after loading.
    time
        Seconds of wall-clock time.
    file
        Bytes of the resulting module, weights included.
    """

    memory: int = 8 * _GIGABYTE
    time: float = 300.0
    file: int = 8 * _GIGABYTE

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ModelError(f"a limit of {field.name} is a number above 0, not {value!r}")

    @staticmethod
    @checked
    def parse(text: str) -> Limits:
        """Parse limits such as ``memory=8G,time=300s,file=2G``.

        Raises
        ------
        ModelError
            The text has an unknown name or an invalid number.
        """
        limits = Limits()
        for part in text.split(","):
            name, _, value = (word.strip() for word in part.partition("="))
            read = _READERS.get(name)
            if read is None:
                raise ModelError(
                    f"{name!r} is not a limit; known: {', '.join(_READERS)}, as in memory=8G,time=300s"
                )
            changed: Any = {name: read(name, value)}
            limits = replace(limits, **changed)
        return limits

    def confine(self) -> None:
        """Confine this process irrevocably; it must be a child that imports one model and ends.

        It cannot exceed `memory`, write to files, dump core, gain privileges, or outlive its parent.
        """
        die_with_parent()
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        seconds = math.ceil(self.time) * (os.cpu_count() or 1) + 1
        for kind, wanted in (
            (resource.RLIMIT_AS, _address_space() + self.memory),
            # The parent enforces the time; this limit is a fallback for a suspended parent.
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, _MOST_FILES),
        ):
            _, hard = resource.getrlimit(kind)
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (most, most))


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends for any reason."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _address_space() -> int:
    """The current size of the address space of this process, most of which is never touched."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    return pages * resource.getpagesize()


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _size(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ModelError(f"{text!r} is not a size for the limit {name}; examples: 500M, 8G")
    return int(match[1]) * _UNITS[match[2].upper()]


def _seconds(name: str, text: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ModelError(f"{text!r} is not a time for the limit {name}; example: 300s")
    return float(match[1])


_READERS = {"memory": _size, "time": _seconds, "file": _size}
