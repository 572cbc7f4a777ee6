"""Where engines differ, op by op, and what crossing between them costs: why mixing pays, or does not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import annotated_region as ar
from annotated_region.cost_units import CostUnit
from annotated_region.costs import HOST

__all__ = ["Differences"]

LEAST_SHARE = 0.002
"""Ops with a smaller share of the time of all are not shown."""


class Differences:
    """The times of single ops on each engine, over all models added.

    Parameters
    ----------
    costs
        The model that has measured the units; it is asked for those alone.
    """

    def __init__(self, costs: ar.MeasuredCost) -> None:
        self._costs = costs
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._calls: dict[str, int] = defaultdict(int)
        self._engines: dict[str, None] = {}

    def add(self, questions: Sequence[tuple[str, CostUnit]]) -> float:
        """Add the ops of a model.

        Returns
        -------
        The sum of each op's time on its fastest engine over that on the best engine, where an op that an
        engine does not take stays on the host.
        """
        calls = self._times_of_calls(questions)
        engines = dict.fromkeys(engine for _name, times in calls for engine in times)
        self._engines |= engines
        for name, times in calls:
            if len(times) == len(engines):
                self._calls[name] += 1
                for engine, seconds in times.items():
                    self._seconds[name][engine] += seconds
        alone = (sum(times.get(engine, times[HOST]) for _name, times in calls) for engine in engines)
        return sum(min(times.values()) for _name, times in calls) / min(alone)

    def _times_of_calls(
        self, questions: Sequence[tuple[str, CostUnit]]
    ) -> list[tuple[str, dict[str, float]]]:
        """The name of each call, and its time on each engine that takes it as a single op."""
        found: dict[int, tuple[str, dict[str, float]]] = {}
        for engine, unit in questions:
            if len(unit.ops) != 1:
                continue
            (op,) = unit.ops
            seconds = self._costs.compute(engine, unit)
            _name, times = found.setdefault(hash(op.call), (op.name.removeprefix("relax."), {}))
            if math.isfinite(seconds):
                times[engine] = min(seconds, times.get(engine, math.inf))
        return [each for each in found.values() if HOST in each[1]]

    def __str__(self) -> str:
        engines = list(self._engines)
        total = sum(min(times.values()) for times in self._seconds.values())
        lines = [
            f"{'op (taken by all engines)':32} calls   ms  " + "  ".join(f"{each:>11}" for each in engines)
        ]
        for name in sorted(self._seconds, key=lambda each: -min(self._seconds[each].values())):
            times = self._seconds[name]
            best = min(times.values())
            if best >= LEAST_SHARE * total:
                shares = "  ".join(f"{times[each] / best:11.2f}" for each in engines)
                lines.append(f"{name:32} {self._calls[name]:5} {best * 1e3:6.2f} {shares}")
        entering = ", ".join(
            f"{each} {self._costs.launch(each) * 1e6:.1f}" for each in engines if each != HOST
        )
        return "\n".join([*lines, f"microseconds to enter a region: {entering}"])
