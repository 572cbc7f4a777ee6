"""Times programs that run in turn, so that each sees the same phases of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from annotated_region.measuring.timing import Clock, Time, sample, warm_up

__all__ = ["time_in_turn"]

_FEWEST, _MOST = 30, 300
"""Rounds: the fewest, and the most if a time is not steady."""

_PARTS = 3
"""The rounds are dealt to so many parts, whose minima tell how well a minimum can be repeated."""

_STEADY = 0.02
"""A time is steady if its spread is at most this."""

_SECONDS, _AT_LEAST = 20.0, _PARTS
"""No further round begins after so many seconds, once there are so many rounds."""


def time_in_turn(runs: Sequence[Callable[[], object]], clock: Clock | None = None) -> list[Time]:
    """The time of each program, from interleaved rounds; each starts every other round.

    The minimum of a program's samples is its time, because other work makes a sample longer, never shorter.
    Its spread is the relative range of the minima of every third round: what a repetition would differ by.
    Further rounds follow while that is wide.
    """
    for run in runs:
        warm_up(run)
    samples: list[list[float]] = [[] for _ in runs]
    began = time.perf_counter()
    for number in range(_MOST):
        if number >= _AT_LEAST and time.perf_counter() - began > _SECONDS:
            break
        if number >= _FEWEST and all(_time(each).spread <= _STEADY for each in samples):
            break
        for each in range(len(runs)) if number % 2 == 0 else reversed(range(len(runs))):
            samples[each].append(sample(runs[each], clock))
    return [_time(each) for each in samples]


def _time(samples: Sequence[float]) -> Time:
    """The minimum; `samples` are at least as many as there are parts."""
    minima = [min(samples[part::_PARTS]) for part in range(_PARTS)]
    return Time(min(minima), max(minima) / min(minima) - 1)
