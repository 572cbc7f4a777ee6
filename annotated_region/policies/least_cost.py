"""LeastCost: the placement of least cost under a cost model, with a lower bound."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from annotated_region.checked import checked_class
from annotated_region.costs.model import (
    HOST,
    ConfirmingCostModel,
    CostModel,
    MeasuringCostModel,
    SegmentTimingCostModel,
)
from annotated_region.errors import UsageError
from annotated_region.ids import NodeId, ScopeId
from annotated_region.placement import DEFAULT_BUDGET, Solution, TargetLimits, Uses, solve
from annotated_region.policies.by_segments import placed_by_segments
from annotated_region.policies.confirmation import BY_SEGMENTS, HOST_ALONE, confirmed, obvious_placements
from annotated_region.policies.constants import constants_of_nodes
from annotated_region.policies.offers import Doubts, FunctionFacts, Offers, problem_of
from annotated_region.policies.policy import Resolution
from annotated_region.policies.region_limits import RegionLimits, readers_of_values
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import backend_of

__all__ = ["LeastCost"]

_FUSED, _CHEAP = 4.0, 0.02
"""The host is run alone unless its ops, one by one, take this many times what the found placement takes, and
more than so many seconds.

The host fuses them, which may save most of their time, but a model that it computes in seconds is not run.
"""


@checked_class
@dataclass(frozen=True, slots=True)
class LeastCost:
    """The placement of least cost under a model; never worse than `Priority` under the same model.

    If the model can run whole placements (a `ConfirmingCostModel` such as `MeasuredCost`), it decides: the
    result is the best of the obvious placements unless another one is significantly faster.

    The objective is in ``docs/resolving-conflicts.md``. Each block of a function is a separate problem. Nodes
    that move no data (tuples, their fields, aliases) are not part of it: values are traced through them.

    Parameters
    ----------
    model
        Any object with the methods of `CostModel`.
    budget
        The search effort where the exact algorithms do not finish, as a number of search states, so that the
        result does not depend on the machine. 300 000 take about eight seconds.
    budget_bytes
        The memory of all regions of a target in a function, by target: for each region its constants, each
        counted once, and for each unit (op or composite) the tensors that it produces for others, including
        results of the region. No memory is assumed to be shared, as in ONNX Runtime's accounting; an extent
        known only at run time counts as 16.
    """

    model: CostModel
    budget: int = DEFAULT_BUDGET
    budget_bytes: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        """Validate the memory budgets.

        Raises
        ------
        UsageError
            A budget is negative.
        """
        for target, size in (self.budget_bytes or {}).items():
            if size < 0:
                raise UsageError(f"the budget of {target!r} is {size}; give a number of bytes, 0 or more")

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId] = ()) -> Resolution:
        """See `Policy`.

        Raises
        ------
        PinError
            The pins leave no place for a node.
        """
        for target in self.budget_bytes or {}:
            backend_of(target)
        scopes = _Scopes.of(regions, pinned, self)
        if isinstance(self.model, MeasuringCostModel):
            self.model.prepare([question for offers in scopes.offers for question in offers.questions()])
        found = scopes.resolution()
        if not isinstance(self.model, ConfirmingCostModel):
            return found
        doubting = partial(scopes.doubting, self.model)
        obvious = {name: each for name, each in obvious_placements(regions, pinned) if scopes.keeps(each)}
        if scopes.host_seconds() > max(_FUSED * found.details["cost"], _CHEAP):
            obvious.pop(HOST_ALONE, None)
        further = scopes.by_segments(regions, obvious) if not pinned else {}
        return confirmed(regions, found, doubting, self.model, obvious, further)


def _details(solutions: Sequence[Solution]) -> dict[str, object]:
    cost = math.fsum(solution.cost for solution in solutions)
    bound = math.fsum(solution.lower_bound for solution in solutions)
    return {
        "cost": cost,
        "lower_bound": bound,
        "gap": 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost),
        "proof": sorted({solution.proof for solution in solutions}),
    }


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The scopes of a function with offers, which share the function-wide limits of their targets.

    Attributes
    ----------
    offers
        The offers of each scope.
    limits
        The limits by target.
    """

    offers: Sequence[Offers]
    limits: Mapping[str, TargetLimits]
    facts: FunctionFacts
    policy: LeastCost
    pinned: Collection[NodeId]

    @staticmethod
    def of(regions: AnnotatedRegionSet, pinned: Collection[NodeId], policy: LeastCost) -> _Scopes:
        """The scopes of a function."""
        graph = regions.dataflow
        by_scope: dict[ScopeId, list[NodeRegion]] = {}
        for member in regions.node_regions.values():
            by_scope.setdefault(graph.nodes[member.nodes[0]].scope, []).append(member)
        facts = FunctionFacts(readers_of_values(graph), constants_of_nodes(graph), RegionLimits(regions))
        offers = [Offers(graph, graph.scopes[scope], members) for scope, members in sorted(by_scope.items())]
        budgets = policy.budget_bytes or {}
        limits = {target: _limits(target, budgets.get(target)) for target in regions.targets}
        return _Scopes(offers, limits, facts, policy, pinned)

    def resolution(self) -> Resolution:
        """The regions of least cost."""
        solutions = self.solutions()
        chosen = (
            member
            for offers, solution in zip(self.offers, solutions, strict=True)
            for member in offers.regions(solution)
        )
        return Resolution(list(chosen), _details(solutions))

    def doubting(self, model: ConfirmingCostModel, current: Resolution) -> Resolution:
        """The regions of least cost if nodes leave the `current` placement only for a significant gain."""
        home = {node: member.target for member in current.regions for node in member.nodes}
        return replace(self, facts=replace(self.facts, doubts=Doubts(model, home))).resolution()

    def solutions(self) -> list[Solution]:
        """A solution for each scope.

        Each scope is first solved with the whole function-wide limits. If the solutions together exceed them,
        the scopes are solved again in order, each with what its predecessors left; the lower bounds of the
        first solutions remain valid.
        """
        first = [self._solved(offers, self.limits) for offers in self.offers]
        if len(first) == 1 or self._within(first):
            return [solution for solution, _left in first]
        left, found = self.limits, []
        for offers, (alone, _left) in zip(self.offers, first, strict=True):
            solution, left = self._solved(offers, left)
            found.append(replace(solution, lower_bound=min(alone.lower_bound, solution.lower_bound)))
        return found

    def _solved(
        self, offers: Offers, limits: Mapping[str, TargetLimits]
    ) -> tuple[Solution, Mapping[str, TargetLimits]]:
        """The solution of one scope, and the remaining limits."""
        problem = problem_of(offers, self.pinned, self.facts, self.policy.model, limits)
        solution = solve(problem, self.policy.budget)
        left, uses = dict(limits), Uses(problem)
        for region in solution.placement.regions:
            target = offers.targets[region.place]
            left[target] = left[target].less(regions=1, memory=uses.memory(region.units))
        return solution, left

    def _within(self, answers: Sequence[tuple[Solution, Mapping[str, TargetLimits]]]) -> bool:
        """Whether all solutions together satisfy the function-wide limits."""
        for target, limits in self.limits.items():
            used = [limits.used_up(left[target]) for _solution, left in answers]
            regions, memory = (sum(column) for column in zip(*used, strict=True))
            if limits.regions is not None and regions > limits.regions:
                return False
            if limits.budget_bytes is not None and memory > limits.budget_bytes:
                return False
        return True

    def host_seconds(self) -> float:
        """The time of all ops on the host, one by one."""
        model = self.policy.model
        asked = (question for offers in self.offers for question in offers.questions())
        return math.fsum(model.compute(target, unit) for target, unit in asked if target == HOST)

    def by_segments(
        self, regions: AnnotatedRegionSet, obvious: Mapping[str, Resolution]
    ) -> dict[str, Resolution]:
        """The fastest combination of the obvious placements by segments, if the model can time them."""
        model = self.policy.model
        if not isinstance(model, SegmentTimingCostModel):
            return {}
        seconds: dict[NodeId, float] = {}
        for offers in self.offers:
            for target, unit, asked in offers.units:
                nodes = offers.ops(unit)
                each = model.compute(target, asked) / len(nodes) if asked.ops else 0.0
                seconds.update((node, min(each, seconds.get(node, math.inf))) for node in nodes)
        found = placed_by_segments(regions.dataflow, list(obvious.values()), seconds, model)
        return {} if found is None or not self.keeps(found) else {BY_SEGMENTS: found}

    def keeps(self, resolution: Resolution) -> bool:
        """Whether a resolution satisfies all limits."""
        left = dict(self.limits)
        for member in resolution.regions:
            if self.facts.asked.refusal(member) is not None:
                return False
            left[member.target] = left[member.target].less(regions=1, memory=self.facts.asked.memory(member))
        return all(limits.is_kept for limits in left.values())


def _limits(target: str, budget: int | None) -> TargetLimits:
    backend = backend_of(target)
    return TargetLimits(
        backend.max_ops,
        backend.max_regions,
        backend.max_constant_bytes,
        backend.max_workspace_bytes,
        budget,
    )
