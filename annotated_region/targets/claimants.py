"""Decides whether replacing several ops by one would lose claims of the given targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from annotated_region.targets.asking import refusal_by_rule
from annotated_region.targets.backend import backend_of
from annotated_region.targets.op_view import OpView
from annotated_region.targets.pattern_parts import ops_of_pattern
from annotated_region.targets.rules import Pattern, patterns_of

__all__ = ["Claimants"]

ARITHMETIC = frozenset(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide"))


@dataclass(frozen=True, slots=True)
class Claimants:
    """The targets for which a module is prepared.

    Attributes
    ----------
    targets
        Their names; empty if the targets are not known yet.
    """

    targets: tuple[str, ...] = ()

    @staticmethod
    def of(targets: Sequence[str]) -> Claimants:
        """The distinct targets of the given names.

        Raises
        ------
        UnknownTargetError
            A target has no rule, pattern or backend.
        """
        names = dict.fromkeys([targets] if isinstance(targets, str) else targets)
        for name in names:
            backend_of(name)
        return Claimants(tuple(names))

    def lose(self, whole: OpView, parts: Sequence[OpView], place: str) -> bool:
        """Whether a target declines `whole` but would claim one of the `parts`.

        A pattern counts as claiming a part if it shares a non-arithmetic op with the parts, or consists of
        arithmetic ops that are all among them; it is not matched.

        Parameters
        ----------
        whole
            The single op.
        parts
            The ops that it would replace.
        place
            The position of the ops, for error messages.

        Raises
        ------
        RuleError
            A rule raised.
        """
        return any(_loses(target, whole, parts, place) for target in self.targets)

    def match(self, names: Collection[str]) -> bool:
        """Whether a target has a pattern with all these ops; True if the targets are not known yet."""
        patterns = (pattern for target in self.targets for pattern in patterns_of(target))
        known = (ops_of_pattern(pattern.pattern) for pattern in patterns)
        return not self.targets or any(ops is not None and ops.keys() >= set(names) for ops in known)


def _loses(target: str, whole: OpView, parts: Sequence[OpView], place: str) -> bool:
    if not refusal_by_rule(target, whole, lambda: place):
        return False
    if any(not refusal_by_rule(target, part, lambda: place) for part in parts):
        return True
    names = {part.name for part in parts}
    return any(_may_match(pattern, names) for pattern in patterns_of(target))


def _may_match(pattern: Pattern, names: set[str]) -> bool:
    ops = ops_of_pattern(pattern.pattern)
    if ops is None:
        return True
    return not names.isdisjoint(ops.keys() - ARITHMETIC) or ops.keys() <= ARITHMETIC & names
