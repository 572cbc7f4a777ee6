"""Candidates for the placement of an edited function, and the choice among them.

Each has a cost under the model, and takes some ops that the edit did not touch out of their target or
region. A placement without the lock is one of them. Of those that cost at most 2 % more than it, the one that
keeps most ops is chosen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from annotated_region.costs import RooflineCost
from annotated_region.costs.model import CostModel
from annotated_region.locking.held import Held
from annotated_region.policies.outcome import Outcome, boundary_cost
from annotated_region.policies.policy import Policy, Resolution
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["Candidate", "best_of", "by_overlap", "model_of"]

_MOST_MORE = 0.02


def model_of(policy: Policy) -> CostModel:
    """The cost model of a policy; `RooflineCost` if it has none."""
    model: CostModel | None = getattr(policy, "model", None)
    return RooflineCost() if model is None else model


@dataclass(frozen=True, slots=True)
class Candidate:
    """Regions, their cost in seconds, and how many held ops they move or put into another region."""

    regions: AnnotatedRegionSet
    answer: Resolution
    seconds: float
    lost: int

    @staticmethod
    def of(regions: AnnotatedRegionSet, answer: Resolution, held: Held, model: CostModel) -> Candidate:
        """The candidate of regions that were made from the answer of a policy. O(nodes + edges)."""
        return Candidate(regions, answer, _seconds(regions, answer, model), _lost(regions, held))

    def resolution(self) -> Resolution:
        """The regions, with the details of the policy for them."""
        members = list(self.regions.node_regions.values())
        details = dict(self.answer.details)
        bound = details.get("lower_bound")
        if "cost" in details and bound is not None:
            cost = max(self.seconds, bound)
            details |= {"cost": cost, "gap": (cost - bound) / cost if cost > 0 else 0.0}
        return replace(self.answer, regions=members, details=details)


def best_of(candidates: Sequence[Candidate], anew: Candidate | None = None) -> Candidate:
    """The candidate that loses the fewest ops, of those that cost at most 2 % more; the first of equals.

    2 % more than the placement without the lock, `anew`, which is the last candidate; than the cheapest, if
    that is not known.
    """
    known = [*candidates, *([] if anew is None else [anew])]
    most = (1 + _MOST_MORE) * (min(each.seconds for each in known) if anew is None else anew.seconds)
    return min((each for each in known if each.seconds <= most), key=lambda each: each.lost)


def _seconds(regions: AnnotatedRegionSet, answer: Resolution, model: CostModel) -> float:
    """The cost of regions whose ops have the targets of the answer.

    The cost in the answer is of its own regions, of which only launches and crossings differ.
    """
    known = answer.details.get("cost")
    if known is None:
        return Outcome.of(regions, model).seconds
    answered = regions.replaced_by(answer.regions)
    return math.fsum([known, boundary_cost(regions, model), -boundary_cost(answered, model)])


def _lost(regions: AnnotatedRegionSet, held: Held) -> int:
    """How many ops of units of the lock are on another target, or not in the region with the same id."""
    members = enumerate(regions.node_regions.values())
    at = {node: (index, member.target) for index, member in members for node in member.nodes}
    was = {node: (target, region) for unit, target, region in held.units for node in unit.nodes}
    shared = Counter(
        (at[node][0], region) for node, (target, region) in was.items() if at.get(node, (0, ""))[1] == target
    )
    ids = by_overlap(shared)
    return len(was) - sum(count for (index, region), count in shared.items() if ids.get(index) == region)


def by_overlap(shared: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """For each new region, the old one whose id it keeps, given how many ops each pair shares.

    Pairs that share most ops come first; each region and each id is used once. So the largest part of a
    split region keeps the id. O(n log n) in the pairs.
    """
    ids: dict[int, int] = {}
    taken: set[int] = set()
    # Ties go to the first region, so that the result only depends on the order of ops.
    for (region, known), _count in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if region not in ids and known not in taken:
            ids[region] = known
            taken.add(known)
    return ids
