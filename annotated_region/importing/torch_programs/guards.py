"""Equations of extents on which PyTorch found, while it exported a program, that the program depends.

A loop over ``n // 4`` blocks is recorded as often as it ran. PyTorch notes the guard ``n // 4 == 2``, which
its own module checks in each call. The range of ``n`` does not say so: a call with more rows would leave out
blocks without a word.

PyTorch also asks whether an axis has one element, which it would squeeze or repeat. What is left of an axis,
``n - (n + 1) // 2``, may have more elements in other calls: the imported program does neither by itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from tvm import relax, tirx

from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.equations import Equations
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal
from annotated_region.tvm_adapter.types import shape_of

if TYPE_CHECKING:
    import torch

__all__ = [
    "Symbolic",
    "extent_of",
    "guarded_equations",
    "require_guard_texts",
    "require_guards",
    "symbols_of_inputs",
]


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


_WRITTEN: Mapping[type[ast.operator], Callable[[Extent, Extent], Extent]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LONGEST = 1000
"""The characters of a guard; PyTorch's have some dozens."""


def guarded_equations(program: torch.export.ExportedProgram) -> list[tuple[Symbolic, Symbolic]]:
    """The sides of the equations among the guards of a program."""
    for node in program.graph.find_nodes(op="placeholder"):
        for extent in getattr(node.meta.get("val"), "shape", ()):
            environment = getattr(getattr(extent, "node", None), "shape_env", None)
            if environment is not None:
                guards = (guard.expr for guard in environment.guards)
                pairs = [each.args for each in guards if type(each).__name__ == "Equality"]
                # Guards keep the symbols of extents that PyTorch has found to be 14 * n since.
                found = [(environment.replace(one), environment.replace(other)) for one, other in pairs]
                return [pair for pair in found if not _is_of_one_element(*pair)]
    return []


def _is_of_one_element(left: Symbolic, right: Symbolic) -> bool:
    """Whether an equation says that what is left of an axis is one element."""
    return "1" in (str(left), str(right)) and "Add" in (type(left).__name__, type(right).__name__)


def require_guards(
    pairs: list[tuple[Symbolic, Symbolic]], main: relax.Function, equations: Equations
) -> None:
    """Let a function check the equations whose symbols are extents of its inputs."""
    known = symbols_of_inputs(main)
    for one, other in pairs:
        left, right = extent_of(one, known), extent_of(other, known)
        if left is not None and right is not None and not provably_equal(left, right):
            equations.require(left, right)


def symbols_of_inputs(main: relax.Function) -> dict[str, tirx.Var]:
    """The variables in extents of inputs, by names."""
    tensors = [each for each in main.params if isinstance(each.ty, relax.TensorType)]
    extents = [extent for each in tensors for extent in shape_of(each).values]
    return {variable.name: variable for variable in variables_in(*extents)}


def require_guard_texts(texts: Iterable[str], main: relax.Function, equations: Equations) -> None:
    """Let a function check the equations among guards that an archive holds as text.

    A text such as ``L['x'].size()[1] // 4 == 2`` is parsed and never executed. What is no equation between
    extents of inputs is left out.
    """
    shapes = {
        each.name: shape_of(each).values for each in main.params if isinstance(each.ty, relax.TensorType)
    }
    for text in texts:
        sides = _sides(text)
        if sides is None or _are_of_one_element(*sides):
            continue
        found = [_written(each, shapes) for each in sides]
        if all(each is not None for each in found):
            equations.require(*(each for each in found if each is not None))


def _sides(text: str) -> tuple[ast.expr, ast.expr] | None:
    """The sides of an equation; None of another text."""
    if len(text) > _LONGEST:
        return None
    try:
        parsed = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):  # the file is anybody's
        return None
    if not isinstance(parsed, ast.Compare) or len(parsed.ops) != 1 or not isinstance(parsed.ops[0], ast.Eq):
        return None
    return parsed.left, parsed.comparators[0]


def _are_of_one_element(left: ast.expr, right: ast.expr) -> bool:
    """As `_is_of_one_element`."""
    sides = (left, right)
    is_one = any(isinstance(each, ast.Constant) and each.value == 1 for each in sides)
    return is_one and any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub) for each in sides
    )


def _written(expr: ast.expr, shapes: Mapping[str, Sequence[Extent]]) -> Extent | None:
    """A parsed expression over extents of inputs; None if it has anything else."""
    match expr:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _written(operand, shapes)
            return None if found is None else 0 - found
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _WRITTEN:
            one, other = _written(left, shapes), _written(right, shapes)
            return None if one is None or other is None else _WRITTEN[type(op)](one, other)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr="trunc" | "floor" | "ceil" as rounding),
            args=[ast.BinOp(left=dividend, op=ast.Div(), right=ast.Constant(value=int(divisor)))],
        ) if divisor > 0:
            above = ast.Constant(divisor - 1 if rounding == "ceil" else 0)
            whole = ast.BinOp(ast.BinOp(dividend, ast.Add(), above), ast.FloorDiv(), ast.Constant(divisor))
            return _written(whole, shapes)
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[], keywords=[]),
            slice=ast.Constant(value=int(axis)),
        ):
            shape = shapes.get(_input_of(source, shapes), ())
            return shape[axis] if 0 <= axis < len(shape) else None
    return None


def _input_of(source: ast.expr, names: Container[str]) -> str:
    """The name of an input: of ``L['x']``, or ``L['d']['x']`` in a dictionary or ``**d``; empty if none."""
    keys: list[str] = []
    while isinstance(source, ast.Subscript) and isinstance(source.slice, ast.Constant):
        keys.insert(0, str(source.slice.value))
        source = source.value
    if not keys or not isinstance(source, ast.Name) or source.id != "L":
        return ""
    return next((name for name in ("_".join(keys), keys[-1]) if name in names), "")


def extent_of(expr: Symbolic, known: Mapping[str, tirx.Var]) -> Extent | None:
    """An expression of PyTorch over variables; None if it has others, or other operations."""
    if not expr.args:
        text = str(expr)
        return int(text) if text.removeprefix("-").isdigit() else known.get(text)
    combine = _OPERATIONS.get(type(expr).__name__)
    parts = [extent_of(each, known) for each in expr.args]
    found = [each for each in parts if each is not None]
    return reduce(combine, found) if combine is not None and len(found) == len(parts) else None
