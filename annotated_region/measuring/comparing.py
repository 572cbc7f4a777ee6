"""Compares the speed of two implementations, and decides whether one is faster beyond noise.

Samples of both alternate, so that both see the same state of the machine. Only the fastest quarter of all
samples counts, since other load makes samples longer, never shorter. If the two are equally fast, each of
these samples is equally likely to belong to either, whatever the noise, so the number that belong to one is
hypergeometric (the quantile test of Johnson, Verrill and Moore 1987).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from annotated_region.measuring.timing import Time, sample, warm_up

__all__ = ["WORTH", "SpeedComparison", "compare"]

WORTH = 0.01
"""The smallest relative gain for which another placement is used."""

_ONE_IN = 1000
"""The false positive rate of one look is at most one in this many."""

_LOOKS = (5, 10, 20, 40, 80)
"""Sample counts at which the test is made, in multiples of `rounds`; the last one ends the comparison."""

_PROMISE = WORTH / 2
"""A look that finds a smaller relative gain ends the comparison."""

_FEW, _FAR = 4, 2.0
"""After `_FEW` rounds the comparison ends if all samples of one exceed `_FAR` times those of the other."""

_SECONDS = 60.0
"""A comparison that has taken this long ends at the next look."""

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class SpeedComparison:
    """The times of two implementations, in seconds.

    Attributes
    ----------
    current
        The lower quartile of the samples of the current implementation, the default if neither is faster.
    candidate
        The lower quartile of the samples of the other one. Its spread gives an upper confidence bound on its
        time, if the current one takes `current`.
    """

    current: float
    candidate: Time

    @property
    def gain(self) -> float:
        """The estimated relative saving of the candidate."""
        return 1 - self.candidate.seconds / self.current

    @property
    def share_at_most(self) -> float:
        """An upper confidence bound on the candidate's time relative to the current one."""
        return self.candidate.seconds * (1 + self.candidate.spread) / self.current

    @property
    def is_faster(self) -> bool:
        """Whether the candidate is significantly faster, by at least `WORTH`."""
        return self.share_at_most < 1 - WORTH


def compare(current: Run, candidate: Run, rounds: int) -> SpeedComparison:
    """Compare two implementations, in `rounds` times as many interleaved rounds as `_LOOKS` has.

    It ends early if the candidate is significantly faster, appears not to be faster, or the two are far
    apart. Both are warmed up before, so that neither is judged by runs in which it still settles.
    """
    warm_up(current)
    warm_up(candidate)
    samples: tuple[list[float], list[float]] = ([], [])
    began = time.perf_counter()
    for look in (_FEW, *(rounds * share for share in _LOOKS)):
        while len(samples[0]) < look:
            _round((current, candidate), samples)
        if look == _FEW:
            if _FAR * max(samples[1]) < min(samples[0]) or _FAR * max(samples[0]) < min(samples[1]):
                return _comparison(samples, max(samples[1]) / min(samples[0]))
            continue
        found = _comparison(samples, _share_at_most(*samples))
        if found.is_faster or found.gain < _PROMISE or time.perf_counter() - began > _SECONDS:
            break
    return found


def _round(ways: tuple[Run, Run], samples: tuple[list[float], list[float]]) -> None:
    """Take a sample of each, alternating the order."""
    for number in (0, 1) if len(samples[0]) % 2 == 0 else (1, 0):
        samples[number].append(sample(ways[number]))


def _comparison(samples: tuple[Sequence[float], Sequence[float]], share: float) -> SpeedComparison:
    current, candidate = (sorted(each)[len(each) // 4] for each in samples)
    return SpeedComparison(current, Time(candidate, max(0.0, share * current / candidate - 1)))


def _share_at_most(current: Sequence[float], candidate: Sequence[float]) -> float:
    """The smallest factor on the current samples for which the test still finds the candidate faster.

    Infinite if there are too few samples. The test requires `needed` of the fastest quarter to be the
    candidate's, so its sample number `needed` must precede the current sample that would be one too many.
    """
    quarter = len(current) // 2  # of the samples of both
    needed = _needed(len(current), quarter)
    if needed is None:
        return math.inf
    return sorted(candidate)[needed - 1] / sorted(current)[quarter - needed]


@cache
def _needed(count: int, quarter: int) -> int | None:
    """The critical value of the test: how many of the `quarter` fastest samples must belong to one side.

    With `count` samples per side and no difference, that many or more occur with a probability of at most 1 /
    `_ONE_IN`, by the hypergeometric distribution. None if even all of them are not enough.
    """
    tail, of = 0, math.comb(2 * count, quarter)
    for needed in range(quarter, -1, -1):
        tail += math.comb(count, needed) * math.comb(count, quarter - needed)
        if tail * _ONE_IN > of:
            return None if needed == quarter else needed + 1
    raise AssertionError("the sum over all counts is 1")
