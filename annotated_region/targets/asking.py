"""Asks a target's rule about one operation, and tells an answer from a mistake."""

from __future__ import annotations

import numpy as np

from annotated_region.errors import RuleError
from annotated_region.notes import DeclineReason, Refusal
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of

__all__ = ["refusal_by_rule", "refusal_of"]


def refusal_by_rule(target: str, view: OpView, place: str) -> Refusal | None:
    """Why `target` declines an operation; None if its rule claims it.

    Parameters
    ----------
    target
        The name of a known target.
    view
        The operation.
    place
        Where it stands, for the message of an error.

    Raises
    ------
    RuleError
        The rule failed, or its answer is none.
    """
    rule = rule_of(target, view.name)
    if rule is None:
        return Refusal(DeclineReason.NO_RULE, view.name)
    where = f"the rule of {target!r} for {view.name} at {place}"
    try:
        answer = rule(view)
    except Exception as error:
        raise RuleError(f"{where} failed: {type(error).__name__}: {error}; mend the rule") from error
    return refusal_of(answer, where)


def refusal_of(answer: object, where: str) -> Refusal | None:
    """The reason in the answer of a rule or check; None when it claims.

    Raises
    ------
    RuleError
        The answer is neither True, nor False, nor a reason.
    """
    if isinstance(answer, bool | int | np.bool_):
        return None if answer else Refusal(DeclineReason.UNEXPLAINED)
    if isinstance(answer, str) and answer:
        return Refusal(DeclineReason.ANSWERED, answer)
    raise RuleError(f"{where} answered {answer!r}; answer True, False, or the reason as a text")
