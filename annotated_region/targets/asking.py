"""Queries a target's rule about one op, and validates the answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from annotated_region.errors import RuleError
from annotated_region.notes import DeclineReason, Refusal
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of

__all__ = ["refusal_by_rule", "refusal_of"]


def refusal_by_rule(target: str, view: OpView, place: Callable[[], str]) -> Refusal | None:
    """Why `target` declines an op; None if its rule claims it.

    Parameters
    ----------
    target
        The name of a known target.
    view
        The op.
    place
        Returns the position of the op; called for error messages only.

    Raises
    ------
    RuleError
        The rule raised, or returned an invalid answer.
    """
    rule = rule_of(target, view.name)
    if rule is None:
        return Refusal(DeclineReason.NO_RULE, view.name)
    try:
        answer = rule(view)
    except Exception as error:
        where = _place_of_rule(target, view, place)
        raise RuleError(f"{where} failed: {type(error).__name__}: {error}; mend the rule") from error
    return None if answer is True else refusal_of(answer, _place_of_rule(target, view, place))


def _place_of_rule(target: str, view: OpView, place: Callable[[], str]) -> str:
    return f"the rule of {target!r} for {view.name} at {place()}"


def refusal_of(answer: object, where: str) -> Refusal | None:
    """Convert the answer of a rule or check to a refusal; None if it claims.

    Raises
    ------
    RuleError
        The answer is neither a boolean nor a reason.
    """
    if isinstance(answer, bool | int | np.bool_):
        return None if answer else Refusal(DeclineReason.UNEXPLAINED)
    if isinstance(answer, str) and answer:
        return Refusal(DeclineReason.ANSWERED, answer)
    raise RuleError(f"{where} answered {answer!r}; answer True, False, or the reason as a string")
