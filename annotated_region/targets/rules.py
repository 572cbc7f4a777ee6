"""The registry of what each target claims: rules for single ops and patterns for composites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tvm.relax.dpl import DFPattern
from tvm.relax.transform import PatternCheckContext

from annotated_region.targets.backend import ensure_known
from annotated_region.targets.op_view import OpView

__all__ = ["Pattern", "Rule", "patterns_of", "register_pattern", "register_rule", "rule_of", "rules_of"]

Rule = Callable[[OpView], bool | str]
"""True claims the op; False, or a reason as text, declines it."""

PatternCheck = Callable[[PatternCheckContext], bool | str]
"""Sees a match the way TVM's ``FusionPattern.check`` does; answers like a rule."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern whose matches a target claims as composites.

    Attributes
    ----------
    name
        The name of the composite, such as ``"dnnl.conv2d_bias_relu"``: what the code generator sees.
    pattern
        The dataflow pattern, matched at the last op of the composite.
    check
        Called for each match; None accepts all.
    annotations
        Sub-patterns by name, for the check to find what they matched.
    """

    name: str
    pattern: DFPattern
    check: PatternCheck | None = None
    annotations: Mapping[str, DFPattern] = field(default_factory=dict)


_RULES: dict[str, dict[str, Rule]] = {}
_PATTERNS: dict[str, dict[str, list[Pattern]]] = {}


def register_rule(target: str, op_name: str) -> Callable[[Rule], Rule]:
    """Decorator: register the rule that says whether `target` can run the op `op_name`.

    The last registration wins, so a notebook cell can be run again.
    """

    def register(rule: Rule) -> Rule:
        ensure_known(target)
        _RULES.setdefault(target, {})[op_name] = rule
        return rule

    return register


def register_pattern(
    target: str,
    name: str,
    pattern: DFPattern,
    check: PatternCheck | None = None,
    annotations: Mapping[str, DFPattern] | None = None,
) -> Pattern:
    """Register a pattern whose matches `target` claims as composites called `name`.

    Several patterns may share a name; registering the same pattern object again replaces its check.
    """
    ensure_known(target)
    registered = Pattern(name, pattern, check, dict(annotations or {}))
    variants = _PATTERNS.setdefault(target, {}).setdefault(name, [])
    variants[:] = [variant for variant in variants if not variant.pattern.same_as(pattern)]
    variants.append(registered)
    return registered


def rule_of(target: str, op_name: str) -> Rule | None:
    """The rule of `target` for `op_name`, or None."""
    return _RULES.get(target, {}).get(op_name)


def rules_of(target: str) -> Mapping[str, Rule]:
    """All rules of `target`, by op name, in order of registration."""
    return dict(_RULES.get(target, {}))


def patterns_of(target: str) -> tuple[Pattern, ...]:
    """All patterns of `target`, in order of registration."""
    return tuple(variant for variants in _PATTERNS.get(target, {}).values() for variant in variants)
