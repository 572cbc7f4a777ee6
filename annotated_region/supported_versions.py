"""Rejects pairs of TVM and its FFI that are known to crash, at import, with the pip command that mends it.

TVM requires a minimum version of `apache-tvm-ffi` and no maximum, so pip installs pairs that were never
tested together. With TVM 0.27 and apache-tvm-ffi 0.1.15, serializing a module crashes with SIGSEGV, for
example in `script(show_meta=True)`, `tvm.ir.save_json` and the tuner.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from annotated_region.errors import VersionError

__all__ = ["REQUIREMENTS", "require_working_pair"]

REQUIREMENTS = ("apache-tvm>=0.27,<0.28", "apache-tvm-ffi>=0.1.14.post0,<0.1.15")

_PATTERN = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.post(\d+))?")
_OLDEST_TVM, _NEXT_TVM = (0, 27, 0, -1), (0, 28, 0, -1)
_OLDEST_FFI, _CRASHING_FFI = (0, 1, 14, 0), (0, 1, 15, -1)


def require_working_pair(version_of: Callable[[str], str] = version) -> None:
    """Check the installed versions of `apache-tvm` and `apache-tvm-ffi`.

    A TVM that pip does not know, such as one built from source, is accepted unchecked; so is a version after
    0.27, which pip installs only on explicit request.

    Parameters
    ----------
    version_of
        Returns the version of an installed distribution.

    Raises
    ------
    VersionError
        TVM is too old, or the pair is known to crash.
    """
    try:
        tvm, ffi = version_of("apache-tvm"), version_of("apache-tvm-ffi")
    except PackageNotFoundError:
        return
    if _ordered(tvm) < _OLDEST_TVM:
        raise _error(f"apache-tvm {tvm} is installed, which is too old")
    if _ordered(tvm) >= _NEXT_TVM:
        return
    if _ordered(ffi) >= _CRASHING_FFI:
        raise _error(f"apache-tvm {tvm} crashes with apache-tvm-ffi {ffi} when it serializes a module")
    if _ordered(ffi) < _OLDEST_FFI:
        raise _error(f"apache-tvm {tvm} does not work with apache-tvm-ffi {ffi}, which is too old")


def _ordered(text: str) -> tuple[int, int, int, int]:
    """A version as a tuple that sorts as versions do: a release before its post-releases.

    A development version counts as the release that it leads to.
    """
    found = _PATTERN.match(text)
    if found is None:
        raise _error(f"{text!r} is not a version number")
    major, minor, patch, post = found.groups()
    return int(major), int(minor), int(patch or 0), -1 if post is None else int(post)


def _error(problem: str) -> VersionError:
    wanted = " ".join(f"'{each}'" for each in REQUIREMENTS)
    return VersionError(f"{problem}; run: python -m pip install {wanted}")
