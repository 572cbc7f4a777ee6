"""Finds the cuts of a function: host ops through which all later ops depend on all earlier ones.

::

    lv1 = relu(x)
    lv2 = sort(lv1)       no target claims it, and no later op reads an earlier value: a cut
    lv3 = add(lv2, c)     reads lv2, but nothing before it
    lv4 = relu(lv3)

No region spans such an op (see `annotated_region.grouping.separating`). Whether preparation rewrites across
it is recorded while it runs (`annotated_region.passes.preparation.borders`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.passes.preparation.reads import reads_of
from annotated_region.targets.asking import refusal_by_rule
from annotated_region.targets.op_view import OpView
from annotated_region.targets.pattern_parts import may_hold
from annotated_region.targets.rules import patterns_of

__all__ = ["SHORTEST", "Separable", "cut_into_parts", "reads_only"]

SHORTEST = 16
"""The minimum number of bindings of a part, because each part has a fixed cost."""


class Separable:
    """Decides which ops the targets leave to the host, alone and in composites."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._patterns = [each.pattern for target in targets for each in patterns_of(target)]
        self._in_composites: dict[str, bool] = {}

    def separates(self, binding: relax.Binding) -> bool:
        """Whether no target claims the value of a binding."""
        view = OpView.of(binding.value) if isinstance(binding.value, relax.Call) else None
        if view is None or not isinstance(binding.var.ty, relax.TensorType):
            return False
        if view.name not in self._in_composites:
            self._in_composites[view.name] = any(may_hold(each, view.name) for each in self._patterns)
        if self._in_composites[view.name]:
            return False
        return all(refusal_by_rule(target, view, lambda: repr(binding.var.name)) for target in self._targets)


def cut_into_parts(
    bindings: Sequence[relax.Binding], result: relax.Var, separable: Separable, first: int = 0
) -> list[list[relax.Binding]]:
    """Split bindings into parts; each part except the last ends with an op that separates it from the rest.

    Parameters
    ----------
    bindings
        The bindings, in program order.
    result
        The result of the function.
    separable
        Decides which ops separate.
    first
        The number of leading bindings that form the first part regardless.

    Notes
    -----
    O(operands). At a cut only its own value is live.
    """
    alive_until = _last_uses(bindings, result)
    parts: list[list[relax.Binding]] = []
    start, reached = 0, -1
    for number, binding in enumerate(bindings):
        is_long = number + 1 - start >= SHORTEST and len(bindings) - number > SHORTEST
        is_alive = alive_until[number] > number
        if number + 1 == first or (
            is_long and number >= first and reached <= number and is_alive and separable.separates(binding)
        ):
            parts.append(list(bindings[start : number + 1]))
            start = number + 1
        reached = max(reached, alive_until[number])
    return [*parts, list(bindings[start:])]


def _last_uses(bindings: Sequence[relax.Binding], result: relax.Var) -> list[int]:
    """For each binding, the index of its last reader; the number of bindings for the result."""
    number_of: ExprMap[int] = ExprMap((binding.var, number) for number, binding in enumerate(bindings))
    last = [-1] * len(bindings)
    for number, binding in enumerate(bindings):
        for var, _field in reads_of(binding.value):
            place = number_of.get(var)
            if place is not None:
                last[place] = number
    place = number_of.get(result)
    if place is not None:
        last[place] = len(bindings)
    return last


def reads_only(bindings: Sequence[relax.Binding], given: Iterator[relax.Var]) -> bool:
    """Whether bindings only read each other, earlier bindings of the sequence, and given variables."""
    known = ExprSet(given)
    for binding in bindings:
        if any(var not in known for var, _field in reads_of(binding.value)):
            return False
        known.add(binding.var)
    return True
