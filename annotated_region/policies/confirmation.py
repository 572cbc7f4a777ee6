"""Holds placements of least cost against the obvious ones, by running each as a whole.

Costs of units add up only roughly: inside a large region a library keeps its own layouts and memory from
unit to unit, and none of that shows when units are timed one by one. And they are noisy: where two engines
are about as fast, the least sum is a matter of luck. A model that can run whole placements is therefore asked
which of the obvious placements is the fastest, and another one has to be surely faster than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from annotated_region.costs.model import ConfirmingCostModel
from annotated_region.ids import NodeId
from annotated_region.policies.policy import Priority, Resolution
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["confirmed", "obvious_placements"]

FOUND, SURE = "least cost", "least cost beyond doubt"


def confirmed(
    regions: AnnotatedRegionSet,
    found: Resolution,
    near: Callable[[Resolution], Resolution],
    model: ConfirmingCostModel,
    obvious: Mapping[str, Resolution],
) -> Resolution:
    """The fastest of the obvious placements, unless one of least cost is surely faster.

    Parameters
    ----------
    regions
        What the targets offer.
    found
        The placement that the costs of single units lead to.
    near
        That which they lead to if what a placement holds counts as fast as it may be, and all else as slow.
    model
        Runs placements.
    obvious
        As `obvious_placements` gives them, without those that break a limit.

    Returns
    -------
    Its details say under ``"measured"`` which placement was taken, and the seconds of each that was run.
    """
    ranked = dict(sorted(obvious.items(), key=lambda item: len(item[1].regions)))
    race = _Race(regions, model)
    base = race.winner(ranked) if ranked else None
    if base is None:
        taken, candidates = FOUND, {FOUND: found}
    else:
        candidates = {base: ranked[base], SURE: near(ranked[base]), FOUND: found}
        taken = race.winner(candidates)
    if _held(candidates[taken]) == _held(found):
        taken = FOUND
    seconds = race.seconds_of({FOUND: found, **obvious, **candidates})
    details = {**found.details, "measured": {"taken": taken, "seconds": seconds}}
    return replace(candidates[taken], details=details)


def obvious_placements(
    regions: AnnotatedRegionSet, pinned: Collection[NodeId]
) -> Iterator[tuple[str, Resolution]]:
    """`Priority` with each target first, and each target alone.

    Where nodes may not go to the host, a target alone is no placement.
    """
    for target in regions.targets:
        yield f"{target} first", Priority([target]).resolve(regions, pinned)
        if not pinned and len(regions.targets) > 1:
            own = [member for member in regions.node_regions.values() if member.target == target]
            yield f"{target} alone", Priority([target]).resolve(regions.replaced_by(own), pinned)


def _held(resolution: Resolution) -> tuple[object, ...]:
    """What tells placements apart."""
    return tuple(sorted(member.sort_key for member in resolution.regions))


class _Race:
    """Runs placements, each distinct one once, and keeps what they take."""

    def __init__(self, regions: AnnotatedRegionSet, model: ConfirmingCostModel) -> None:
        self._graph = regions.dataflow
        self._model = model
        self._seconds: dict[tuple[object, ...], float] = {}

    def winner(self, candidates: Mapping[str, Resolution]) -> str:
        """The first candidate, or a later one that is surely faster."""
        distinct: dict[tuple[object, ...], str] = {}
        for name, each in candidates.items():
            distinct.setdefault(_held(each), name)
        names = list(distinct.values())
        if len(names) == 1:
            return names[0]
        times = self._model.first_of_fastest(self._graph, [candidates[name].regions for name in names])
        self._seconds |= dict(zip(distinct, times.seconds, strict=True))
        return names[times.taken]

    def seconds_of(self, candidates: Mapping[str, Resolution]) -> dict[str, float]:
        """What the candidates take that were run."""
        held = {name: _held(each) for name, each in candidates.items()}
        return {name: self._seconds[key] for name, key in held.items() if key in self._seconds}
