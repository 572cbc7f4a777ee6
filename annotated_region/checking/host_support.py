"""Builds a program for the host, and identifies the op that TVM cannot build."""

from __future__ import annotations

import tvm

from annotated_region.compilation.culprit import unbuildable_part
from annotated_region.compilation.executable import LinkedExecutable, compile_module
from annotated_region.errors import BuildError
from annotated_region.passes.host_repairs.repairing import repaired

__all__ = ["require_host_builds"]


def require_host_builds(mod: tvm.IRModule) -> LinkedExecutable:
    """The program, built by TVM.

    Raises
    ------
    BuildError
        TVM cannot build it; the message names the first op that cannot be built in isolation, if any.
    """
    whole = repaired(mod)
    try:
        return compile_module(whole)
    except BuildError as error:
        culprit = unbuildable_part(whole)
        if culprit is None:
            raise
        name, op, _function = culprit
        raise BuildError(
            f"the host cannot be the reference: TVM cannot build {name} ({op}): {error.__cause__ or error}"
        ) from error
