"""What a check found of a region, for reports and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["RegionVerdict", "Verdict", "words_for_verdict", "worst_verdict"]


class Verdict(Enum):
    """Whether a region is right on its target."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILS = "fails"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class RegionVerdict:
    """What a check found of a region.

    Attributes
    ----------
    verdict
        Whether it is right; it fails where the target raised an error instead of an answer.
    symbol
        Its external function, which equal regions share.
    absolute, relative
        The largest error of its results, and the same over the largest magnitude of the reference.
    culprits
        The names of the ops that are wrong together, where they were looked for.
    """

    verdict: Verdict
    symbol: str
    absolute: float = 0.0
    relative: float = 0.0
    culprits: tuple[str, ...] = ()


_BADNESS = (Verdict.FAILS, Verdict.WRONG, Verdict.RIGHT, Verdict.NOT_RUN)


def worst_verdict(verdicts: Sequence[RegionVerdict]) -> RegionVerdict | None:
    """Of several regions the one that fails, is wrong, or has the largest error; None of none."""
    ranked = sorted(verdicts, key=lambda each: (_BADNESS.index(each.verdict), -each.relative))
    return ranked[0] if ranked else None


def words_for_verdict(checked: RegionVerdict) -> str:
    """The verdict, and the largest error over the largest value, short enough for a box of a picture."""
    if checked.verdict in (Verdict.FAILS, Verdict.NOT_RUN):
        return str(checked.verdict.value)
    return f"{checked.verdict.value}: error {checked.relative:.2g} of largest"
