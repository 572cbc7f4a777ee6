"""Builds the placement problem of one scope of a function, and converts solutions back to regions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST, ConfirmingCostModel, CostModel
from annotated_region.dataflow.graph import RESULT, DataflowGraph, NodeKind, Scope
from annotated_region.dataflow.leaves import Leaf
from annotated_region.ids import MemberIndex, NodeId, Place, UnitId, Vertex, numbered
from annotated_region.placement import (
    PlacementConstant,
    PlacementProblem,
    PlacementUnit,
    PlacementValue,
    Solution,
    TargetLimits,
)
from annotated_region.policies.constants import ReadConstant
from annotated_region.policies.region_forms import in_accepted_form
from annotated_region.policies.region_limits import RegionLimits
from annotated_region.regions.claims import follow_the_data, units_of
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.targets.backend import backend_of
from annotated_region.targets.extents import size_of

__all__ = ["Doubts", "FunctionFacts", "Offers", "problem_of"]


@dataclass(frozen=True, slots=True)
class Doubts:
    """Adjusts costs by their error bounds: optimistic for a unit that stays in its place, pessimistic for a
    move.

    Attributes
    ----------
    model
        The model with the error bounds.
    home
        By node, its target in the reference placement; nodes on the host are left out.
    """

    model: ConfirmingCostModel
    home: Mapping[NodeId, str]

    def change(self, target: str, nodes: Sequence[NodeId], unit: CostUnit) -> float:
        """The seconds to add to the cost of a unit."""
        stays = all(self.home.get(node, HOST) == target for node in nodes)
        return (-1 if stays else 1) * self.model.doubt(target, unit)


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """Facts shared by all scopes of a function.

    Attributes
    ----------
    readers
        For each single value, the nodes that compute with it (or RESULT).
    constants
        The constants that nodes read.
    asked
        Evaluates the limits of backends.
    doubts
        The adjustment of costs in favour of a reference placement, if there is one.
    """

    readers: Mapping[Leaf, Sequence[NodeId]]
    constants: Sequence[ReadConstant]
    asked: RegionLimits
    doubts: Doubts | None = None


class Offers:
    """The candidate units of one scope, numbered for the placement engine, and the way back to regions."""

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
            yield HOST, ClaimedUnit.of_node(node), CostUnit.of(self.graph, (node,))

    def _target_units(self) -> Iterator[tuple[str, ClaimedUnit, CostUnit]]:
        seen = set()
        for member in self.members:
            for unit in units_of(member):
                ops = self.ops(unit)
                if ops and (member.target, ops, unit.composite) not in seen:
                    seen.add((member.target, ops, unit.composite))
                    yield member.target, unit, CostUnit.of(self.graph, ops, unit.composite)

    def ops(self, unit: ClaimedUnit) -> tuple[NodeId, ...]:
        """The nodes of a unit in the placement problem: those that compute."""
        return tuple(node for node in unit.nodes if node in self.local)

    def questions(self) -> Iterator[tuple[str, CostUnit]]:
        """All queries that the cost model will get."""
        for target, unit, cost_unit in self.units:
            if self.graph.nodes[unit.nodes[0]].kind is NodeKind.OPERATION:
                yield target, cost_unit

    def regions(self, solution: Solution) -> list[NodeRegion]:
        """The regions of a solution, with structural nodes assigned to them."""
        groups = [(self.targets[region.place], region.units) for region in solution.placement.regions]
        return self._grouped(groups, self.members)

    def region(self, target: str, units: Sequence[UnitId]) -> NodeRegion:
        """The region that some units of one target would form."""
        nodes = [node for unit in units for node in self.units[unit][1].nodes]
        beside = NodeRegion(target, tuple(sorted(self._structure_beside(nodes))))
        return self._grouped([(target, units)], [beside])[0]

    def _structure_beside(self, nodes: Sequence[NodeId]) -> dict[NodeId, None]:
        """The structural nodes connected to some nodes."""
        graph = self.graph
        found: dict[NodeId, None] = {}
        work = list(nodes)
        for node in work:  # grows while it is walked
            around = [edge.producer for edge in graph.into[node]]
            around += [edge.consumer for edge in graph.out_of[node]]
            for other in around:
                if other >= 0 and other not in found and graph.nodes[other].kind is NodeKind.STRUCTURE:
                    found[other] = None
                    work.append(other)
        return found

    def _grouped(
        self, groups: Sequence[tuple[str, Sequence[UnitId]]], members: Sequence[NodeRegion]
    ) -> list[NodeRegion]:
        """One region for each group of units, with the structural nodes of `members` assigned to them."""
        owner: dict[NodeId, MemberIndex] = {}
        composites: dict[MemberIndex, list[ClaimedUnit]] = {}
        targets: dict[MemberIndex, str] = {}
        for index, (target, units) in numbered(MemberIndex, groups):
            targets[index] = target
            for chosen in units:
                unit = self.units[chosen][1]
                owner.update(dict.fromkeys(unit.nodes, index))
                if unit.is_composite:
                    composites.setdefault(index, []).append(unit)
        follow_the_data(self.graph, members, owner, targets)
        held: dict[MemberIndex, list[NodeId]] = {}
        for node, index in sorted(owner.items()):
            held.setdefault(index, []).append(node)
        return [
            NodeRegion(targets[index], tuple(nodes), tuple(sorted(composites.get(index, ()))))
            for index, nodes in held.items()
        ]


def problem_of(
    offers: Offers,
    pinned: Collection[NodeId],
    facts: FunctionFacts,
    model: CostModel,
    limits: Mapping[str, TargetLimits],
) -> PlacementProblem:
    """The placement problem of some offers: costs, values, limits."""
    places = (*offers.targets, HOST)
    forms = [backend_of(target).regions for target in offers.targets]
    single = [form == "one composite" for form in forms]
    # A target that accepts only single units launches once per unit; charging it per unit tightens bounds.
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
            if facts.doubts is not None and 0 < cost < math.inf:
                cost = max(0.0, cost + facts.doubts.change(target, offers.ops(unit), cost_unit))
        nodes = tuple(offers.local[node] for node in offers.ops(unit))
        units.append(PlacementUnit(place, nodes, cost + by_unit[place]))
    tables = _Tables(model, places)
    return PlacementProblem(
        len(offers.nodes),
        by_region,
        (*_values(offers, facts.readers, tables), *_orders(offers, tables)),
        tuple(units),
        frozenset(place for place, form in enumerate(forms) if form == "connected"),
        frozenset(place for place, alone in enumerate(single) if alone),
        tuple(limits[target] for target in offers.targets),
        tuple(_constants(offers, facts.constants)),
        _predicate(offers, facts.asked),
    )


class _Predicate:
    """The acceptance predicates of the backends of a scope, over units; cached by region."""

    def __init__(self, offers: Offers, asked: RegionLimits) -> None:
        self._offers = offers
        self._asked = asked
        self._choosy = [backend_of(target).accepts_region is not None for target in offers.targets]
        self._known: dict[tuple[UnitId, ...], bool] = {}

    def __call__(self, place: Place, units: tuple[UnitId, ...]) -> bool:
        if not self._choosy[place]:
            return True
        key = tuple(sorted(units))
        if key not in self._known:
            region = self._offers.region(self._offers.targets[place], key)
            pieces = in_accepted_form(self._offers.graph, [region])
            self._known[key] = all(self._asked.declined(piece) is None for piece in pieces)
        return self._known[key]


def _predicate(offers: Offers, asked: RegionLimits) -> _Predicate | None:
    choosy = any(backend_of(target).accepts_region is not None for target in offers.targets)
    return _Predicate(offers, asked) if choosy else None


class _Tables:
    """Transfer costs by size; one shared table for each size."""

    def __init__(self, model: CostModel, places: Sequence[str]) -> None:
        self.model = model
        self.places = places
        self.nothing = tuple((0.0,) * len(places) for _place in places)
        self.known: dict[int, tuple[tuple[float, ...], ...]] = {}

    def of(self, size: int) -> tuple[tuple[float, ...], ...]:
        """Transfer times by source and destination, for a value of `size` bytes."""
        if size not in self.known:
            self.known[size] = tuple(
                tuple(self._seconds(size, source, destination) for destination in self.places)
                for source in self.places
            )
        return self.known[size]

    def _seconds(self, size: int, source: str, destination: str) -> float:
        return 0.0 if source == destination == HOST else self.model.transfer(size, source, destination)


def _values(
    offers: Offers, readers: Mapping[Leaf, Sequence[NodeId]], tables: _Tables
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
        size = size_of(leaf.ty)
        yield PlacementValue(made_here, tuple(inside), tables.of(size), read_by_host, size)


def _orders(offers: Offers, tables: _Tables) -> Iterator[PlacementValue]:
    """Order edges as values of size 0."""
    local = offers.local
    for before, after in offers.graph.order_edges:
        if before in local and after in local:
            yield PlacementValue(local[before], (local[after],), tables.nothing)


def _constants(offers: Offers, constants: Sequence[ReadConstant]) -> Iterator[PlacementConstant]:
    for constant in constants:
        inside = tuple(offers.local[node] for node in constant.readers if node in offers.local)
        if inside:
            yield PlacementConstant(constant.size, inside)
