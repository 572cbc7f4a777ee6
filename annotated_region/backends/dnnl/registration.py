"""How the rules of this backend are written: generators of problems, registered for the ops they judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from annotated_region.backends.dnnl.checks import first_problem
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["TARGET", "Problems", "claims"]

TARGET = "dnnl"

Problems = Iterator[str | None]


def claims(*names: str) -> Callable[[Callable[[OpView], Problems]], Callable[[OpView], Problems]]:
    """Register a generator of problems as the rule of the ops called `names`: no problem, a claim."""

    def register(problems: Callable[[OpView], Problems]) -> Callable[[OpView], Problems]:
        for name in names:
            register_rule(TARGET, name)(lambda op: first_problem(problems(op)))
        return problems

    return register
