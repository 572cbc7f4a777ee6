"""The analysis of a function for planning: its ops in order, with producers and readers of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.targets.op_view import OpView

__all__ = ["ReadFunction", "OpStep"]


@dataclass(frozen=True, slots=True)
class OpStep:
    """A binding whose value is an op."""

    var: relax.Var
    view: OpView
    place: int


@dataclass(frozen=True)
class ReadFunction:
    """The ops in the blocks of a function, excluding branches and local functions.

    Attributes
    ----------
    steps
        The ops in program order.
    makers
        The steps by the variable that they define.
    readers
        By variable, its distinct reading steps, and None for each other use: a result, a tuple, a branch.
    """

    steps: tuple[OpStep, ...]
    makers: ExprMap[OpStep]
    readers: ExprMap[list[OpStep | None]]

    @staticmethod
    def of(func: relax.Function) -> ReadFunction:
        """Analyze a function. O(size of the function)."""
        steps: list[OpStep] = []
        makers: ExprMap[OpStep] = ExprMap()
        readers: ExprMap[list[OpStep | None]] = ExprMap()
        for binding in (binding for block in func.body.blocks for binding in block.bindings):
            view = OpView.of(binding.value) if isinstance(binding, relax.VarBinding) else None
            step = None if view is None else OpStep(binding.var, view, len(steps))
            if step is not None:
                steps.append(step)
                makers[binding.var] = step
            for variable in _distinct(binding.value):
                readers.setdefault(variable, []).append(step)
        for variable in _distinct(func.body.body):
            readers.setdefault(variable, []).append(None)
        return ReadFunction(tuple(steps), makers, readers)

    def readers_of(self, value: relax.Var) -> list[OpStep | None]:
        """The readers of a value; None for each use that is not a step."""
        return self.readers.get(value, [])

    def only_reader(self, value: relax.Var) -> OpStep | None:
        """The only reader of a value; None if there are others, or it is not a step."""
        readers = self.readers_of(value)
        return readers[0] if len(readers) == 1 else None


def _distinct(expr: relax.Expr) -> Iterator[relax.Var]:
    """The distinct variables in an expression, including nested expressions."""
    found: ExprMap[None] = ExprMap()

    def visit(part: relax.Expr) -> None:
        if isinstance(part, relax.Var):
            found[part] = None

    relax.analysis.post_order_visit(expr, visit)
    yield from found
