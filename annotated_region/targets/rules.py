"""The registry of claims: each target's rules for single ops and patterns for composites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
from annotated_region.targets.pattern_parts import depth_of_pattern, root_op
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
"""Returns True to claim the op; False, or the reason as a string, to decline it."""

PatternCheck = Callable[[PatternCheckContext], bool | str]
"""Gets a match as TVM's ``FusionPattern.check`` does; returns what a rule does."""

AttributesGetter = Callable[[Mapping[str, relax.Expr]], Mapping[str, object]]
"""Maps the expressions matched by the annotated sub-patterns to extra attributes of the composite."""


@dataclass(frozen=True)
class Pattern:
    """A pattern whose matches a target claims as composites.

    Attributes
    ----------
    name
        The name of the composite, such as ``"dnnl.conv2d_bias_relu"``, for the code generator.
    pattern
        The dataflow pattern; its root matches the last op of the composite.
    check
        Called for each match; None accepts all.
    annotations
        Sub-patterns by name, so that the check can find their matches.
    rank
        The position in its pattern table: of matches that share nodes, only that of the first pattern is
        claimed, as in TVM's ``FuseOpsByPattern``. None for a pattern outside tables, all matches of which are
        claimed.
    registered_at
        The place of the registration, as ``path:line``, for messages.
    attributes
        Computes extra attributes of the composite function, as ``attrs_getter`` of TVM's ``FusionPattern``
        does; None if there are none.
    """

    name: str
    pattern: DFPattern
    check: PatternCheck | None = None
    annotations: Mapping[str, DFPattern] = field(default_factory=dict)
    rank: int | None = None
    registered_at: str = field(default="", compare=False)
    attributes: AttributesGetter | None = None

    @cached_property
    def root_op(self) -> str | None:
        """The op at the root of every match; None if it is not fixed."""
        return root_op(self.pattern)

    @cached_property
    def depth(self) -> int | None:
        """The longest chain of values in a match; None if unknown."""
        return depth_of_pattern(self.pattern)


_RULES: dict[str, dict[str, Rule]] = {}
_PATTERNS: dict[str, dict[str, list[Pattern]]] = {}


@checked
def register_rule(target: str, op_name: str) -> Callable[[Rule], Rule]:
    """Decorator: register the rule that decides whether `target` can run the op `op_name`.

    The last registration wins, so that a notebook cell can be run again. The rule gets an `OpView`, and
    returns True, False, or the reason for declining.

    Raises
    ------
    UsageError
        The names are not strings, or the rule is not callable.
    InvalidBackendError
        A target cannot have this name.

    Examples
    --------
    >>> @ar.register_rule("npu", "relax.nn.conv2d")  # doctest: +SKIP
    ... def conv2d(op):
    ...     return op.attrs["groups"] == 1 or f"groups {op.attrs['groups']}"
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
    """Register a pattern whose matches `target` claims as composites with the given name.

    Parameters
    ----------
    target
        The name of the target.
    name
        The name of the composites, which the code generator sees; several patterns may share one.
    pattern
        What is matched; registering the same pattern object again replaces its check.
    check
        Receives each match as TVM's ``PatternCheckContext``, and answers as a rule does: True, False, or the
        reason for declining. Without a check every match is claimed.
    annotations
        Names of parts of the pattern, for ``annotated_expr`` of the check.

    Raises
    ------
    UsageError
        The names are not strings, the pattern is not a TVM pattern, or the check is not callable.
    InvalidBackendError
        A target cannot have this name.

    Examples
    --------
    >>> conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())  # doctest: +SKIP
    >>> ar.register_pattern("npu", "npu.conv_relu", is_op("relax.nn.relu")(conv))  # doctest: +SKIP
    """
    ensure_known(target)
    entry = Pattern(name, pattern, check, dict(annotations or {}), registered_at=_line_of(currentframe()))
    return _registered(target, entry)


@checked
def register_patterns(target: str, table: Iterable[object]) -> tuple[Pattern, ...]:
    """Register a TVM pattern table: `target` claims what TVM's ``FuseOpsByPattern`` would fuse with it.

    Of matches that share nodes, the one of the first pattern in the table wins, regardless of size; of two
    matches of one pattern, the one that ends first. A second table of a target is appended to the first; a
    pattern object that is registered already moves to the new position.

    Parameters
    ----------
    target
        The name of the target. If it is one of TVM's code generators (`cublas`, `cutlass`, ...) and has no
        description yet, it is registered with that generator's.
    table
        The result of ``tvm.relax.backend.get_patterns_with_prefix``, or tuples of the arguments of
        ``tvm.relax.transform.FusionPattern``; the most preferred first.

    Returns
    -------
    The patterns, in the order of the table.

    Raises
    ------
    RuleError
        An entry is not a pattern.

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
    """The location of the call to a function of this file; empty if Python does not provide frames."""
    caller = registering.f_back if registering else None
    if caller and caller.f_globals.get("__name__") == checked.__module__:
        caller = caller.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller else ""


def _fusion_pattern(item: object) -> FusionPattern:
    """An entry of a pattern table.

    Raises
    ------
    RuleError
        It is not one.
    """
    if isinstance(item, tuple):
        item = FusionPattern(*item)
    if not isinstance(item, FusionPattern):
        raise RuleError(
            f"{item!r} is not an entry of a pattern table; pass FusionPatterns, or their arguments"
        )
    return item


def _registered(target: str, pattern: Pattern) -> Pattern:
    """Add a pattern; it replaces one with the same pattern object."""
    variants = _PATTERNS.setdefault(target, {}).setdefault(pattern.name, [])
    variants[:] = [variant for variant in variants if not variant.pattern.same_as(pattern.pattern)]
    variants.append(pattern)
    return pattern


def rule_of(target: str, op_name: str) -> Rule | None:
    """The rule of `target` for `op_name`, or None."""
    load_built_in(target)
    return _RULES.get(target, {}).get(op_name)


def rules_of(target: str) -> Mapping[str, Rule]:
    """All rules of `target`, by op name, in order of registration."""
    load_built_in(target)
    return dict(_RULES.get(target, {}))


def patterns_of(target: str) -> tuple[Pattern, ...]:
    """All patterns of `target`, in order of registration."""
    load_built_in(target)
    return tuple(variant for variants in _PATTERNS.get(target, {}).values() for variant in variants)
