"""Checks the environment of the process: thread counts that crash TVM."""

from __future__ import annotations

import os
from collections.abc import Mapping

from annotated_region.errors import BackendUnavailableError

__all__ = ["require_sane_threads"]

_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
_ENOUGH_FOR_ANY_MACHINE = 1024


def require_sane_threads(environment: Mapping[str, str] = os.environ) -> None:
    """Check the variables that set TVM's number of threads, which TVM does not validate.

    Raises
    ------
    BackendUnavailableError
        One of them asks for so many threads that TVM would crash with SIGSEGV.
    """
    for name in _VARIABLES:
        number = environment.get(name, "").strip()
        if number.isdecimal() and int(number[:9]) > _ENOUGH_FOR_ANY_MACHINE:
            raise BackendUnavailableError(
                f"{name} asks for {number[:9]} threads; "
                f"set it to {_ENOUGH_FOR_ANY_MACHINE} at most, or unset it"
            )
