"""TVM's target for the host, from a string, a mapping of options or a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import tvm

from annotated_region.arguments import require_kind
from annotated_region.errors import UsageError

__all__ = ["UNOPTIMIZED", "HostTarget", "host_target"]

HostTarget: TypeAlias = str | Mapping[str, object] | tvm.target.Target
"""What TVM makes a target from: its kind, its options, or the target itself."""

UNOPTIMIZED = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""For code that runs a few times: LLVM's optimizations take most of the time to compile a small graph."""

_INSTEAD = 'TVM\'s target for the host, such as "llvm"; the targets of regions are handed to partition'


def host_target(given: HostTarget) -> tvm.target.Target:
    """TVM's target for the host.

    Raises
    ------
    UsageError
        `given` has another type, or TVM does not know it.
    """
    require_kind(given, (str, Mapping, tvm.target.Target), "the argument target", _INSTEAD)
    if isinstance(given, tvm.target.Target):
        return given
    try:
        return tvm.target.Target(given)
    except ValueError as error:
        raise UsageError(f"TVM does not know the target {given!r}; pass {_INSTEAD}") from error
