"""Equations of extents on which PyTorch found, while it exported a program, that the program depends.

A loop over ``n // 4`` blocks is recorded as often as it ran. PyTorch notes the guard ``n // 4 == 2``, which
its own module checks in each call. The range of ``n`` does not say so: a call with more rows would leave out
blocks without a word.

PyTorch also asks whether an axis has one element, which it would squeeze or repeat. What is left of an axis,
``n - (n + 1) // 2``, may have more elements in other calls: the imported program does neither by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from tvm import relax, tirx

from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.equations import Equations
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import shape_of

if TYPE_CHECKING:
    import torch

__all__ = ["Symbolic", "guarded_equations", "require_guards"]


class Symbolic(Protocol):
    """An expression of SymPy."""

    args: Sequence[Symbolic]


_OPERATIONS: Mapping[str, Callable[[Extent, Extent], Extent]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
}


def guarded_equations(program: torch.export.ExportedProgram) -> list[tuple[Symbolic, Symbolic]]:
    """The sides of the equations among the guards of a program."""
    for node in program.graph.find_nodes(op="placeholder"):
        for extent in getattr(node.meta.get("val"), "shape", ()):
            environment = getattr(getattr(extent, "node", None), "shape_env", None)
            if environment is not None:
                guards = (guard.expr for guard in environment.guards)
                pairs = [(each.args[0], each.args[1]) for each in guards if type(each).__name__ == "Equality"]
                return [pair for pair in pairs if not _is_of_one_element(*pair)]
    return []


def _is_of_one_element(left: Symbolic, right: Symbolic) -> bool:
    """Whether an equation says that what is left of an axis is one element."""
    return "1" in (str(left), str(right)) and "Add" in (type(left).__name__, type(right).__name__)


def require_guards(
    pairs: list[tuple[Symbolic, Symbolic]], main: relax.Function, equations: Equations
) -> None:
    """Let a function check the equations whose symbols are extents of its inputs."""
    tensors = [each for each in main.params if isinstance(each.ty, relax.TensorType)]
    extents = [extent for each in tensors for extent in shape_of(each).values]
    known = {variable.name: variable for extent in extents for variable in variables_in(extent)}
    for pair in pairs:
        sides = [_extent(each, known) for each in pair]
        if all(each is not None for each in sides):
            equations.require(*(each for each in sides if each is not None))


def _extent(expr: Symbolic, known: Mapping[str, tirx.Var]) -> Extent | None:
    """An expression of PyTorch over variables; None if it has others, or other operations."""
    if not expr.args:
        text = str(expr)
        return int(text) if text.removeprefix("-").isdigit() else known.get(text)
    combine = _OPERATIONS.get(type(expr).__name__)
    parts = [_extent(each, known) for each in expr.args]
    found = [each for each in parts if each is not None]
    return reduce(combine, found) if combine is not None and len(found) == len(parts) else None
