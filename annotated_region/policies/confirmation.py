"""Validates least-cost placements against obvious ones by running each as a whole.

Unit costs are only roughly additive: inside a large region a library keeps its own layouts and memory from
unit to unit, which timings of single units do not show. They are also noisy: if two engines are about equally
fast, the minimum is decided by noise. A cost model that can run whole placements is therefore asked for the
fastest of the obvious placements, and any other placement must be significantly faster than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from annotated_region.costs.model import ConfirmingCostModel
from annotated_region.ids import NodeId
from annotated_region.policies.policy import Priority, Resolution
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["BY_SEGMENTS", "HOST_ALONE", "confirmed", "obvious_placements"]

FOUND, SURE = "least cost", "least cost beyond doubt"
HOST_ALONE, BY_SEGMENTS = "host alone", "by segments"


def confirmed(
    regions: AnnotatedRegionSet,
    found: Resolution,
    near: Callable[[Resolution], Resolution],
    model: ConfirmingCostModel,
    obvious: Mapping[str, Resolution],
    further: Mapping[str, Resolution],
) -> Resolution:
    """The fastest of the obvious placements, unless a least-cost or further one is significantly faster.

    Parameters
    ----------
    regions
        The regions that the targets offer.
    found
        The placement of least cost by unit costs.
    near
        Returns the placement of least cost if the costs of staying in a given placement take their lower
        bounds and all other costs their upper bounds.
    model
        The model that runs placements.
    obvious
        The result of `obvious_placements`, without those that violate a limit.
    further
        Other placements, by name.

    Returns
    -------
    The chosen placement; ``details["measured"]`` has its name, and the time of each placement that was run.
    """
    ranked = dict(sorted(obvious.items(), key=lambda item: len(item[1].regions)))
    race = _Race(regions, model)
    base = race.winner(ranked) if ranked else None
    if base is None:
        candidates = {FOUND: found, **further}
    else:
        candidates = {base: ranked[base], SURE: near(ranked[base]), FOUND: found, **further}
    taken = race.winner(candidates)
    if _held(candidates[taken]) == _held(found):
        taken = FOUND
    seconds = race.seconds_of({FOUND: found, **obvious, **candidates})
    details = {**found.details, "measured": {"taken": taken, "seconds": seconds}}
    return replace(candidates[taken], details=details)


def obvious_placements(
    regions: AnnotatedRegionSet, pinned: Collection[NodeId]
) -> Iterator[tuple[str, Resolution]]:
    """`Priority` with each target first, each target alone, and the host alone.

    A single target and the host are no options if nodes are pinned to targets.
    """
    for target in regions.targets:
        yield f"{target} first", Priority([target]).resolve(regions, pinned)
        if not pinned and len(regions.targets) > 1:
            own = [member for member in regions.node_regions.values() if member.target == target]
            yield f"{target} alone", Priority([target]).resolve(regions.replaced_by(own), pinned)
    if not pinned:
        yield HOST_ALONE, Resolution([])


def _held(resolution: Resolution) -> tuple[object, ...]:
    """The identity of a placement."""
    return tuple(sorted(member.sort_key for member in resolution.regions))


class _Race:
    """Runs each distinct placement once, and records the times."""

    def __init__(self, regions: AnnotatedRegionSet, model: ConfirmingCostModel) -> None:
        self._graph = regions.dataflow
        self._model = model
        self._seconds: dict[tuple[object, ...], float] = {}

    def winner(self, candidates: Mapping[str, Resolution]) -> str:
        """The first candidate, or a later one that is significantly faster."""
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
        """The times of those candidates that were run."""
        held = {name: _held(each) for name, each in candidates.items()}
        return {name: self._seconds[key] for name, key in held.items() if key in self._seconds}
