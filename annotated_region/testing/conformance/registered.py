"""The registrations of a backend: its rules and patterns, their source lines, and their makers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annotated_region.targets.rules import Pattern, patterns_of, rules_of
from annotated_region.testing.conformance.graphs import (
    Maker,
    can_be_tried,
    maker_of_op,
    maker_of_pattern,
    makers_of,
)
from annotated_region.testing.conformance.instances import ops_in, unknown_in
from annotated_region.testing.conformance.sources import line_of_pattern, line_of_rule
from annotated_region.testing.recipes import Recipe

__all__ = ["Entry", "claimed_ops", "entries_of", "makers_for"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule or a pattern of a backend.

    Attributes
    ----------
    name
        The op, or the composite. Patterns with the same name are numbered, from the second one.
    line
        The source line of its definition or registration, as ``path:line``.
    pattern
        The pattern; None for a rule.
    """

    name: str
    line: str
    pattern: Pattern | None = None

    @property
    def composite(self) -> str:
        """The composite name that code generators see; empty for a rule."""
        return self.pattern.name if self.pattern else ""

    @property
    def what(self) -> str:
        """A description for messages."""
        return f"pattern {self.name}" if self.pattern else f"the rule for {self.name}"

    def why_untried(self, recipes: Mapping[str, Recipe]) -> str:
        """The reason why graphs for it cannot be generated; empty if they can."""
        if self.pattern:
            return unknown_in(self.pattern.pattern, recipes)
        return "" if self.name in recipes else f"no recipe for {self.name}"

    def maker(self, recipes: Mapping[str, Recipe], dtype: str) -> Maker | None:
        """Its maker; None if it cannot be tried in graphs of this type."""
        if self.why_untried(recipes):
            return None
        if self.pattern:
            return maker_of_pattern(self.pattern.pattern, recipes)
        return maker_of_op(self.name, recipes) if can_be_tried(self.name, recipes, dtype) else None


def entries_of(target: str) -> tuple[Entry, ...]:
    """All rules of a target, then all of its patterns, in order of registration."""
    rules = [Entry(name, line_of_rule(rule)) for name, rule in rules_of(target).items()]
    seen: dict[str, int] = {}
    patterns = []
    for pattern in patterns_of(target):
        seen[pattern.name] = seen.get(pattern.name, 0) + 1
        name = pattern.name if seen[pattern.name] == 1 else f"{pattern.name} ({seen[pattern.name]})"
        patterns.append(Entry(name, line_of_pattern(pattern), pattern))
    return (*rules, *patterns)


def claimed_ops(target: str) -> tuple[str, ...]:
    """The ops that the rules and the patterns of a target name."""
    names = dict.fromkeys(rules_of(target))
    for pattern in patterns_of(target):
        names.update(dict.fromkeys(ops_in(pattern.pattern)))
    return tuple(names)


def makers_for(target: str, recipes: Mapping[str, Recipe], dtype: str) -> Sequence[Maker]:
    """The makers of the ops and composites of a target, and of an op that it does not claim."""
    ops = makers_of(claimed_ops(target), recipes, dtype)
    patterns = (entry.maker(recipes, dtype) for entry in entries_of(target) if entry.pattern)
    return [*ops, *(maker for maker in patterns if maker)]
