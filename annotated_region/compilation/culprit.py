"""Finds the op that TVM fails to build in a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax

from annotated_region.compilation.executable import compile_module
from annotated_region.dataflow.graph import NodeKind
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.errors import BuildError
from annotated_region.functions.external import external_function
from annotated_region.functions.modules import functions_to_partition
from annotated_region.origins import described
from annotated_region.regions.op_names import op_name_of

__all__ = ["Part", "unbuildable_part"]

Part = tuple[str, str, relax.Function]
"""A description of a binding, its op name, and a function that computes only it."""


def unbuildable_part(mod: tvm.IRModule) -> Part | None:
    """The first op of a module's host functions that TVM cannot build alone; None if there is none."""
    return _first_unbuildable(list(_parts(mod)))


def _parts(mod: tvm.IRModule) -> Iterator[Part]:
    """Each op of the module's functions as a separate part."""
    for name, func in functions_to_partition(mod):
        graph = read_dataflow(func, name.name_hint)
        for number, node in graph.numbered():
            if node.kind is not NodeKind.OPERATION:
                continue
            made = external_function(graph, (number,), (), {})
            if made is not None and not relax.analysis.all_global_vars(made.func):
                yield described(node.var), op_name_of(node.value), made.func


def _first_unbuildable(parts: Sequence[Part]) -> Part | None:
    """The first part that TVM cannot build, by bisection: O(log n) builds if there is one."""
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
