"""A machine whose clock is simulated: what ops take is known, and noise is as it was asked for.

Noise is of two kinds: each run takes some per cent more or less, and now and then all takes longer for a
while, as beside other work.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from tvm import relax

from annotated_region.measuring import comparing, measured, timing, wholes
from annotated_region.measuring.timing import Time

ENTERING = 2e-6
"""Seconds to enter a function."""

BURST, SLOWER, BETWEEN = 0.03, 1.6, 0.4
"""How long a burst of other work lasts, how much longer all takes, and the mean time between two."""

Seconds = Mapping[tuple[str, str], float]


class NoisyMachine:
    """Takes the place of the clock and of what is built.

    Parameters
    ----------
    seconds
        By target and name of an op, what it takes; others take nothing.
    noise
        The standard deviation of a run, as a share.
    bursts
        Whether there is other work now and then.
    seed
        Of all that is random.
    """

    def __init__(self, seconds: Seconds, noise: float, bursts: bool, seed: int) -> None:
        self._seconds = seconds
        self._noise = noise
        self._bursts = bursts
        self._random = random.Random(seed)
        self._now = 0.0
        self._burst = 0.0

    def install(self, monkeypatch) -> None:
        """From now on all that is timed runs here."""
        monkeypatch.setattr(timing, "time", self)
        monkeypatch.setattr(comparing, "time", self)
        monkeypatch.setattr(timing, "runs_of", self.runs_of)
        monkeypatch.setattr(wholes, "runs_of", self.runs_of)
        monkeypatch.setattr(measured, "time_copy", lambda _size: Time(1e-6, 0.0))

    def perf_counter(self) -> float:
        """The simulated clock."""
        return self._now

    def runs_of(self, units, _builds):
        """Stands for `annotated_region.measuring.timing.runs_of`."""
        return [self._run(self.true_seconds(unit)) for unit in units]

    def true_seconds(self, unit) -> float:
        """What a unit takes without noise; ops that are not named take nothing."""
        found = [ENTERING]

        def visit(expr):
            if isinstance(expr, relax.Call) and hasattr(expr.op, "name"):
                found.append(self._seconds.get((unit.target, expr.op.name), 0.0))

        relax.analysis.post_order_visit(unit.func.body, visit)
        return sum(found)

    def _run(self, seconds: float):
        def run() -> None:
            self._now += seconds * self._factor()

        return run

    def _factor(self) -> float:
        """What a run that starts now takes more."""
        if self._bursts and self._now > self._burst:
            self._burst = self._now + BURST + self._random.expovariate(1 / BETWEEN)
        in_burst = self._bursts and self._burst - self._now < BURST
        return max(0.5, self._random.gauss(1.0, self._noise)) * (SLOWER if in_burst else 1.0)
