"""The result of a check of a region, for reports and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["RegionVerdict", "Verdict", "words_for_verdict", "worst_verdict"]


class Verdict(Enum):
    """The verdict of a check on a region."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILS = "fails"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class RegionVerdict:
    """The result of a check of a region.

    Attributes
    ----------
    verdict
        The verdict; ``FAILS`` if the target raised an error.
    symbol
        Its external function; equal regions share one.
    absolute, relative
        The largest error of its results, and the same relative to the largest magnitude of the reference.
    culprits
        The names of the ops that are wrong together, if they were searched for.
    """

    verdict: Verdict
    symbol: str
    absolute: float = 0.0
    relative: float = 0.0
    culprits: tuple[str, ...] = ()


_BADNESS = (Verdict.FAILS, Verdict.WRONG, Verdict.RIGHT, Verdict.NOT_RUN)


def worst_verdict(verdicts: Sequence[RegionVerdict]) -> RegionVerdict | None:
    """The worst verdict: failing, then wrong, then the largest error; None if there are no verdicts."""
    ranked = sorted(verdicts, key=lambda each: (_BADNESS.index(each.verdict), -each.relative))
    return ranked[0] if ranked else None


def words_for_verdict(checked: RegionVerdict) -> str:
    """The verdict and the relative error, short enough for a box of a picture."""
    if checked.verdict in (Verdict.FAILS, Verdict.NOT_RUN):
        return str(checked.verdict.value)
    return f"{checked.verdict.value}: error {checked.relative:.2g} of largest"
