"""Builds a program for the host, and finds the op that TVM cannot build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax

from annotated_region.compilation.executable import LinkedExecutable, compile_module
from annotated_region.dataflow.graph import NodeKind
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.errors import BuildError
from annotated_region.functions.external import external_function
from annotated_region.functions.modules import functions_to_partition
from annotated_region.regions.networks import op_name_of

__all__ = ["require_host_builds"]

Part = tuple[str, str, relax.Function]
"""The name of a binding, that of its op, and the function that computes the binding alone."""


def require_host_builds(mod: tvm.IRModule) -> LinkedExecutable:
    """The program as TVM builds it.

    Raises
    ------
    BuildError
        TVM cannot build it; the message names the first op that it cannot build alone, where there is one.
    """
    try:
        return compile_module(mod)
    except BuildError as error:
        culprit = _first_unbuildable(list(_parts(mod)))
        if culprit is None:
            raise
        name, op, _function = culprit
        raise BuildError(
            f"the host cannot be the reference: TVM cannot build {name!r} ({op}): {error.__cause__ or error}"
        ) from error


def _parts(mod: tvm.IRModule) -> Iterator[Part]:
    """Each op of the module's functions by itself."""
    for name, func in functions_to_partition(mod):
        graph = read_dataflow(func, name.name_hint)
        for number, node in graph.numbered():
            if node.kind is not NodeKind.OPERATION:
                continue
            made = external_function(graph, (number,), (), {})
            if made is not None and not relax.analysis.all_global_vars(made.func):
                yield node.var.name, op_name_of(node.value), made.func


def _first_unbuildable(parts: Sequence[Part]) -> Part | None:
    """The first part that TVM cannot build; O(log n) builds for one of them."""
    if not parts or _builds(parts):
        return None
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _first_unbuildable(parts[:half]) or _first_unbuildable(parts[half:])


def _builds(parts: Sequence[Part]) -> bool:
    mod = tvm.IRModule(
        {
            f"part{number}": func.with_attr("global_symbol", f"part{number}")
            for number, (_, _, func) in enumerate(parts)
        }
    )
    try:
        compile_module(mod)
    except BuildError:
        return False
    return True
