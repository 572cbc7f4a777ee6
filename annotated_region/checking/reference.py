"""Builds the reference: the host, which is TVM, or another target with the host for unclaimed ops.

The regions stay functions called by ``main``, so that their arguments and results can be observed. A
reference target gets the ops that it claims in them and in ``main``; the rest runs on the host:

    main -> dnnl_main_0 { onnxruntime_dnnl_main_0_0, an op of the host }
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from annotated_region.checking.host_support import require_host_builds
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.costs.model import HOST
from annotated_region.errors import BackendUnavailableError, InputError
from annotated_region.passes.build import build
from annotated_region.passes.pipeline import partition
from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["built_reference", "require_reference", "require_runs_here"]


def require_reference(reference: str, targets: Sequence[str]) -> None:
    """Check that a reference can be used with the given targets.

    Raises
    ------
    InputError
        The reference is one of the targets, which would be compared with itself.
    UnknownTargetError
        There is no such target.
    BackendUnavailableError
        The reference cannot run on this machine.
    """
    if reference == HOST:
        return
    if reference in targets:
        raise InputError(
            f"the reference {reference!r} is one of the targets, and would be compared with itself; "
            f"take {HOST!r}, which is TVM, or another target"
        )
    require_runs_here(reference)


def require_runs_here(target: str) -> None:
    """Raise `BackendUnavailableError` unless a target can run on this machine."""
    reason = unavailability(backend_of(target))
    if reason is not None:
        raise BackendUnavailableError(f"target {target!r} cannot be checked on this machine: {reason}")


def built_reference(mod: tvm.IRModule, reference: str) -> LinkedExecutable:
    """A program of host functions, built for a reference.

    Raises
    ------
    BuildError
        It cannot be built; for the host, the message names the op.
    """
    if reference == HOST:
        return require_host_builds(mod)
    return build(partition(mod, [reference], prepare=False), progress=False)
