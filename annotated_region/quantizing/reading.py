"""A function as planning sees it: its calls in order, what makes a value, and who reads it."""

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
    """The ops that stand in the blocks of a function, not those in branches and local functions.

    Attributes
    ----------
    steps
        In program order.
    makers
        By the variable that it is bound to.
    readers
        By variable, the steps that read it, each once, and None for each other place: a result, a tuple, a
        branch.
    """

    steps: tuple[OpStep, ...]
    makers: ExprMap[OpStep]
    readers: ExprMap[list[OpStep | None]]

    @staticmethod
    def of(func: relax.Function) -> ReadFunction:
        """Read a function. O(size of the function)."""
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
        """Who reads a value."""
        return self.readers.get(value, [])

    def only_reader(self, value: relax.Var) -> OpStep | None:
        """The one step that reads a value; None if others read it, too."""
        readers = self.readers_of(value)
        return readers[0] if len(readers) == 1 else None


def _distinct(expr: relax.Expr) -> Iterator[relax.Var]:
    """The variables that an expression reads anywhere in it, each once."""
    found: ExprMap[None] = ExprMap()

    def visit(part: relax.Expr) -> None:
        if isinstance(part, relax.Var):
            found[part] = None

    relax.analysis.post_order_visit(expr, visit)
    yield from found
