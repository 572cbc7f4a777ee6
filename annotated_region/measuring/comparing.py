"""Compares two ways of computing the same, and tells whether one is faster beyond what noise explains.

Samples of both alternate, so that both meet the same machine. Of all samples the fastest quarter counts,
since other work makes samples longer and never shorter. If neither way is faster, each of these is as likely
of one as of the other, whatever the noise, so how many are of one is hypergeometric (the quantile test of
Johnson, Verrill and Moore 1987).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from annotated_region.measuring.timing import Time, sample

__all__ = ["WORTH", "SpeedComparison", "compare"]

WORTH = 0.01
"""A gain of this share at least is worth another placement."""

_ONE_IN = 1000
"""One of two equal ways passes for the faster one in one of so many looks, at most."""

_LOOKS = (5, 10, 20, 40, 80)
"""After how many times the given rounds the samples are looked at; beyond the last no more are taken."""

_PROMISE = WORTH / 2
"""Where a look finds a gain below this share, no more samples are taken."""

_FEW, _FAR = 4, 2.0
"""After so few rounds a factor between all samples of one way and all of the other is enough."""

_SECONDS = 60.0
"""A comparison that took so long ends at the next look."""

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class SpeedComparison:
    """What two ways take, in seconds.

    Attributes
    ----------
    current
        The lower quartile of the samples of the way that is kept if the other is not surely faster.
    candidate
        That of the other way; its spread tells what it takes at most, if the current one takes `current`.
    """

    current: float
    candidate: Time

    @property
    def gain(self) -> float:
        """What the candidate seems to save, as a share."""
        return 1 - self.candidate.seconds / self.current

    @property
    def share_at_most(self) -> float:
        """The share of the current way's time that the candidate surely does not exceed."""
        return self.candidate.seconds * (1 + self.candidate.spread) / self.current

    @property
    def is_faster(self) -> bool:
        """Whether the candidate is surely faster, by `WORTH` at least."""
        return self.share_at_most < 1 - WORTH


def compare(current: Run, candidate: Run, rounds: int) -> SpeedComparison:
    """Compare two ways, in `rounds` times as many interleaved rounds as `_LOOKS` says.

    It ends early where the candidate is surely faster, or does not seem to be, or the two are far apart.
    """
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
    """Take a sample of each, the other way first each time."""
    for number in (0, 1) if len(samples[0]) % 2 == 0 else (1, 0):
        samples[number].append(sample(ways[number]))


def _comparison(samples: tuple[Sequence[float], Sequence[float]], share: float) -> SpeedComparison:
    current, candidate = (sorted(each)[len(each) // 4] for each in samples)
    return SpeedComparison(current, Time(candidate, max(0.0, share * current / candidate - 1)))


def _share_at_most(current: Sequence[float], candidate: Sequence[float]) -> float:
    """The least factor on the current samples with which the test still calls the candidate faster.

    Infinite where the samples are too few. The test wants `needed` of the fastest quarter to be the
    candidate's: one sample of it has to come before the first of the others that would leave too few places.
    """
    quarter = len(current) // 2  # of the samples of both
    needed = _needed(len(current), quarter)
    if needed is None:
        return math.inf
    return sorted(candidate)[needed - 1] / sorted(current)[quarter - needed]


@cache
def _needed(count: int, quarter: int) -> int | None:
    """How many of the `quarter` fastest have to be of one of two ways, with `count` samples each.

    More than that many of two equal ways are met in one of `_ONE_IN` comparisons. None where all of them
    are not enough.
    """
    tail, of = 0, math.comb(2 * count, quarter)
    for needed in range(quarter, -1, -1):
        tail += math.comb(count, needed) * math.comb(count, quarter - needed)
        if tail * _ONE_IN > of:
            return None if needed == quarter else needed + 1
    raise AssertionError("none of them is no sign")
