"""The registry of what each target claims: rules for single ops and patterns for composites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import currentframe
from types import FrameType

from tvm import relax
from tvm.relax.dpl import DFPattern
from tvm.relax.transform import FusionPattern, PatternCheckContext

from annotated_region.arguments import require_callable
from annotated_region.checked import checked
from annotated_region.errors import RuleError
from annotated_region.targets.backend import describe, ensure_known
from annotated_region.targets.built_in import load_built_in
from annotated_region.targets.op_view import OpView
from annotated_region.targets.tvm_generators import TVM_GENERATORS

__all__ = [
    "Pattern",
    "Rule",
    "patterns_of",
    "register_pattern",
    "register_patterns",
    "register_rule",
    "rule_of",
    "rules_of",
]

Rule = Callable[[OpView], bool | str]
"""True claims the op; False, or a reason as text, declines it."""

PatternCheck = Callable[[PatternCheckContext], bool | str]
"""Sees a match the way TVM's ``FusionPattern.check`` does; answers like a rule."""

AttributesGetter = Callable[[Mapping[str, relax.Expr]], Mapping[str, object]]
"""From what the annotated parts of a pattern matched to further attributes of the composite."""


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
    rank
        The place in the table that it came from: where matches share nodes, only that of the first pattern is
        claimed, as TVM's ``FuseOpsByPattern`` has it. None for a pattern whose matches all are.
    registered_at
        The file and line that registered it, as ``path:line``, for messages about it.
    attributes
        Computes further attributes of the composite function, as ``attrs_getter`` of TVM's ``FusionPattern``
        does; None for a pattern whose composites have none.
    """

    name: str
    pattern: DFPattern
    check: PatternCheck | None = None
    annotations: Mapping[str, DFPattern] = field(default_factory=dict)
    rank: int | None = None
    registered_at: str = field(default="", compare=False)
    attributes: AttributesGetter | None = None


_RULES: dict[str, dict[str, Rule]] = {}
_PATTERNS: dict[str, dict[str, list[Pattern]]] = {}


@checked
def register_rule(target: str, op_name: str) -> Callable[[Rule], Rule]:
    """Decorator: register the rule that says whether `target` can run the op `op_name`.

    The last registration wins, so a notebook cell can be run again.

    Raises
    ------
    UsageError
        The names are no texts, or the rule cannot be called.
    """

    def register(rule: Rule) -> Rule:
        require_callable(rule, f"the rule for {op_name}", "a function of an OpView")
        ensure_known(target)
        _RULES.setdefault(target, {})[op_name] = rule
        return rule

    return register


@checked
def register_pattern(
    target: str,
    name: str,
    pattern: DFPattern,
    check: PatternCheck | None = None,
    annotations: Mapping[str, DFPattern] | None = None,
) -> Pattern:
    """Register a pattern whose matches `target` claims as composites called `name`.

    Several patterns may share a name; registering the same pattern object again replaces its check.

    Raises
    ------
    UsageError
        The names are no texts, the pattern is none of TVM's, or the check cannot be called.
    """
    ensure_known(target)
    entry = Pattern(name, pattern, check, dict(annotations or {}), registered_at=_line_of(currentframe()))
    return _registered(target, entry)


@checked
def register_patterns(target: str, table: Iterable[object]) -> tuple[Pattern, ...]:
    """Register a pattern table of TVM: `target` claims what TVM's ``FuseOpsByPattern`` would fuse with it.

    Where matches of the table share nodes, the pattern that comes first wins, whatever the sizes, and of two
    matches of one pattern the one that ends first. A second table of a target comes behind the first; a
    pattern object that is registered already moves there.

    Parameters
    ----------
    target
        The name of the target. If it is one of TVM's code generators (`cublas`, `cutlass`, ...) and not
        described yet, it is registered as that generator takes its regions.
    table
        What ``tvm.relax.backend.get_patterns_with_prefix`` answers, or tuples of the arguments of
        ``tvm.relax.transform.FusionPattern``; the most preferred first.

    Returns
    -------
    The patterns, in the order of the table.

    Raises
    ------
    RuleError
        An entry is no pattern.

    Examples
    --------
    ::

        from tvm.relax.backend import get_patterns_with_prefix
        import tvm.relax.backend.cuda.cutlass  # registers TVM's table

        ar.register_patterns("cutlass", get_patterns_with_prefix("cutlass"))
        ar.partition(mod, ["cutlass"])
    """
    line = _line_of(currentframe())
    entries = [_fusion_pattern(item) for item in table]
    if backend := TVM_GENERATORS.get(target):
        describe(backend)
    ensure_known(target)
    held = [pattern for pattern in patterns_of(target) if pattern.rank is not None]
    first = 1 + max([pattern.rank for pattern in held if pattern.rank is not None], default=-1)
    return tuple(
        _registered(
            target,
            Pattern(
                entry.name,
                entry.pattern,
                entry.check,
                dict(entry.annotation_patterns),
                first + place,
                line,
                entry.attrs_getter,
            ),
        )
        for place, entry in enumerate(entries)
    )


def _line_of(registering: FrameType | None) -> str:
    """Where a function of this file was called; Python need not know its frames."""
    caller = registering.f_back if registering else None
    if caller and caller.f_globals.get("__name__") == checked.__module__:
        caller = caller.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller else ""


def _fusion_pattern(item: object) -> FusionPattern:
    """An entry of a table.

    Raises
    ------
    RuleError
        It is none.
    """
    if isinstance(item, tuple):
        item = FusionPattern(*item)
    if not isinstance(item, FusionPattern):
        raise RuleError(
            f"{item!r} is no entry of a pattern table: hand in FusionPatterns, or their arguments"
        )
    return item


def _registered(target: str, pattern: Pattern) -> Pattern:
    """Add a pattern; it takes the place of one with the same pattern object."""
    variants = _PATTERNS.setdefault(target, {}).setdefault(pattern.name, [])
    variants[:] = [variant for variant in variants if not variant.pattern.same_as(pattern.pattern)]
    variants.append(pattern)
    return pattern


def rule_of(target: str, op_name: str) -> Rule | None:
    """The rule of `target` for `op_name`, or None."""
    load_built_in()
    return _RULES.get(target, {}).get(op_name)


def rules_of(target: str) -> Mapping[str, Rule]:
    """All rules of `target`, by op name, in order of registration."""
    load_built_in()
    return dict(_RULES.get(target, {}))


def patterns_of(target: str) -> tuple[Pattern, ...]:
    """All patterns of `target`, in order of registration."""
    load_built_in()
    return tuple(variant for variants in _PATTERNS.get(target, {}).values() for variant in variants)
