"""LeastCost: the placement that a cost model makes cheapest, with a bound that says how cheap it could be."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotated_region.arguments import require_kind, require_methods
from annotated_region.costs.model import HOST, ConfirmingCostModel, CostModel, CostUnit
from annotated_region.costs.work import size_of
from annotated_region.dataflow.graph import RESULT, DataflowGraph, NodeKind, Scope
from annotated_region.dataflow.leaves import Leaf, readers_of_leaves
from annotated_region.ids import MemberIndex, NodeId, Place, ScopeId, Vertex, numbered
from annotated_region.placement import (
    DEFAULT_BUDGET,
    PlacementProblem,
    PlacementUnit,
    PlacementValue,
    Solution,
    solve,
)
from annotated_region.policies.confirmation import confirmed
from annotated_region.policies.policy import Resolution
from annotated_region.regions.claims import follow_the_data, units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import backend_of

__all__ = ["LeastCost"]


@dataclass(frozen=True, slots=True)
class LeastCost:
    """The placement of least cost under a model; never worse than `Priority` under the same model.

    A model that can time whole regions (a `ConfirmingCostModel`, as `MeasuredCost` is one) has the last word:
    the placement that was found is held against the obvious ones.

    The objective is in ``docs/resolving-conflicts.md``. Each block of a function is one problem. What
    moves no data (tuples, their fields, other names) is no part of it: values are followed through it.

    Parameters
    ----------
    model
        Any object with the methods of `CostModel`.
    budget
        How much to search where the answer is not found exactly: a number of search states, so that
        the result does not depend on the machine. 300 000 take about eight seconds.
    """

    model: CostModel
    budget: int = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        """Refuse what is no cost model.

        Raises
        ------
        UsageError
            The model lacks a method of `CostModel`, or the budget is no number.
        """
        methods = ["launch", "compute", "transfer"]
        model = "a cost model, such as MeasuredCost() or RooflineCost()"
        require_methods(self.model, methods, "the cost model", model)
        require_kind(self.budget, int, "the budget", "a number of search states")

    def resolve(self, regions: AnnotatedRegionSet, pinned: Collection[NodeId] = ()) -> Resolution:
        """See `Policy`.

        Raises
        ------
        PinError
            The pins leave a node without a place.
        """
        graph = regions.dataflow
        by_scope: dict[ScopeId, list[NodeRegion]] = {}
        for member in regions.node_regions.values():
            by_scope.setdefault(graph.nodes[member.nodes[0]].scope, []).append(member)
        readers = _readers(graph)
        offers = [_Offers(graph, graph.scopes[scope], members) for scope, members in sorted(by_scope.items())]
        if hasattr(self.model, "prepare"):
            self.model.prepare([question for offer in offers for question in offer.questions()])
        chosen: list[NodeRegion] = []
        solutions = []
        for offer in offers:
            solution = solve(_problem(offer, pinned, readers, self.model), self.budget)
            solutions.append(solution)
            chosen += offer.regions(solution)
        found = Resolution(chosen, _details(solutions))
        if not isinstance(self.model, ConfirmingCostModel):
            return found
        return confirmed(regions, found, self.model, pinned)


def _details(solutions: Sequence[Solution]) -> dict[str, object]:
    cost = math.fsum(solution.cost for solution in solutions)
    bound = math.fsum(solution.lower_bound for solution in solutions)
    return {
        "cost": cost,
        "lower_bound": bound,
        "gap": 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost),
        "proof": sorted({solution.proof for solution in solutions}),
    }


def _readers(graph: DataflowGraph) -> dict[Leaf, list[NodeId]]:
    """For each single value, the nodes that compute with it (or RESULT)."""

    def computes(consumer: NodeId) -> bool:
        return consumer < 0 or graph.nodes[consumer].kind is not NodeKind.STRUCTURE

    return readers_of_leaves(graph, computes)


class _Offers:
    """What may run where in one scope, numbered for the placement engine, and the way back."""

    def __init__(self, graph: DataflowGraph, scope: Scope, members: Sequence[NodeRegion]) -> None:
        self.graph = graph
        self.members = members
        self.targets = tuple(dict.fromkeys(member.target for member in members))
        movable = (NodeKind.OPERATION, NodeKind.BOUNDARY)
        self.nodes = [node for node in scope.nodes if graph.nodes[node].kind in movable]
        self.local = {node: vertex for vertex, node in numbered(Vertex, self.nodes)}
        self.units = [*self._host_units(), *self._target_units()]

    def _host_units(self) -> Iterator[tuple[str, ClaimedUnit, CostUnit]]:
        for node in self.nodes:
            yield HOST, ClaimedUnit((node,), ""), CostUnit.of(self.graph, (node,))

    def _target_units(self) -> Iterator[tuple[str, ClaimedUnit, CostUnit]]:
        seen = set()
        for member in self.members:
            for unit in units_of(member):
                ops = self.ops(unit)
                if ops and (member.target, ops, unit.name) not in seen:
                    seen.add((member.target, ops, unit.name))
                    yield member.target, unit, CostUnit.of(self.graph, ops, unit.name or None)

    def ops(self, unit: ClaimedUnit) -> tuple[NodeId, ...]:
        """The nodes of a unit that the problem knows: those that compute."""
        return tuple(node for node in unit.nodes if node in self.local)

    def questions(self) -> Iterator[tuple[str, CostUnit]]:
        """All that the cost model will be asked."""
        for target, unit, cost_unit in self.units:
            if self.graph.nodes[unit.nodes[0]].kind is NodeKind.OPERATION:
                yield target, cost_unit

    def regions(self, solution: Solution) -> list[NodeRegion]:
        """The regions that a solution chose, with what moves no data put where its data is."""
        owner: dict[NodeId, MemberIndex] = {}
        composites: dict[MemberIndex, list[ClaimedUnit]] = {}
        targets: dict[MemberIndex, str] = {}
        for index, region in numbered(MemberIndex, solution.placement.regions):
            targets[index] = self.targets[region.place]
            for chosen in region.units:
                unit = self.units[chosen][1]
                owner.update(dict.fromkeys(unit.nodes, index))
                if unit.is_composite:
                    composites.setdefault(index, []).append(unit)
        follow_the_data(self.graph, self.members, owner, targets)
        held: dict[MemberIndex, list[NodeId]] = {}
        for node, index in sorted(owner.items()):
            held.setdefault(index, []).append(node)
        return [
            NodeRegion(targets[index], tuple(nodes), tuple(sorted(composites.get(index, ()))))
            for index, nodes in held.items()
        ]


def _problem(
    offers: _Offers, pinned: Collection[NodeId], readers: Mapping[Leaf, Sequence[NodeId]], model: CostModel
) -> PlacementProblem:
    """The offers with what they cost."""
    places = (*offers.targets, HOST)
    forms = [backend_of(target).regions for target in offers.targets]
    single = [form == "one composite" for form in forms]
    # A target that takes one unit a region pays its launch with each unit, which the search then sees.
    entry = [model.launch(target) for target in offers.targets]
    by_unit = [*(cost if alone else 0.0 for cost, alone in zip(entry, single, strict=True)), 0.0]
    by_region = tuple(0.0 if alone else cost for cost, alone in zip(entry, single, strict=True))
    units = []
    for target, unit, cost_unit in offers.units:
        place = Place(places.index(target))
        cost = math.inf
        if target != HOST or unit.nodes[0] not in pinned:
            is_boundary = offers.graph.nodes[unit.nodes[0]].kind is NodeKind.BOUNDARY
            cost = 0.0 if is_boundary else model.compute(target, cost_unit)
        nodes = tuple(offers.local[node] for node in offers.ops(unit))
        units.append(PlacementUnit(place, nodes, cost + by_unit[place]))
    tables = _Tables(model, places)
    values = [*_values(offers, readers, tables), *_orders(offers, tables)]
    return PlacementProblem(
        len(offers.nodes),
        by_region,
        tuple(values),
        tuple(units),
        frozenset(place for place, form in enumerate(forms) if form == "connected"),
        frozenset(place for place, alone in enumerate(single) if alone),
    )


class _Tables:
    """What values cost to move, by size: the same table for the same size."""

    def __init__(self, model: CostModel, places: Sequence[str]) -> None:
        self.model = model
        self.places = places
        self.nothing = tuple((0.0,) * len(places) for _place in places)
        self.known: dict[int, tuple[tuple[float, ...], ...]] = {}

    def of(self, size: int) -> tuple[tuple[float, ...], ...]:
        """Seconds by source and destination, for a value of `size` bytes."""
        if size not in self.known:
            self.known[size] = tuple(
                tuple(self._seconds(size, source, destination) for destination in self.places)
                for source in self.places
            )
        return self.known[size]

    def _seconds(self, size: int, source: str, destination: str) -> float:
        return 0.0 if source == destination == HOST else self.model.transfer(size, source, destination)


def _values(
    offers: _Offers, readers: Mapping[Leaf, Sequence[NodeId]], tables: _Tables
) -> Iterator[PlacementValue]:
    local = offers.local
    for leaf, consumers in readers.items():
        producer = offers.graph.number_of(leaf.root)
        made_here = local.get(producer) if producer is not None else None
        inside = sorted({local[node] for node in consumers if node in local})
        if not inside and made_here is None:
            continue
        elsewhere = any(node == RESULT or node not in local for node in consumers)
        read_by_host = made_here is not None and elsewhere
        yield PlacementValue(made_here, tuple(inside), tables.of(size_of(leaf.ty)), host_reads=read_by_host)


def _orders(offers: _Offers, tables: _Tables) -> Iterator[PlacementValue]:
    """Edges that carry no value still order what they join."""
    local = offers.local
    for before, after in offers.graph.order_edges:
        if before in local and after in local:
            yield PlacementValue(local[before], (local[after],), tables.nothing)
