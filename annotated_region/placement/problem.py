"""The placement problem as plain numbers: nodes, values, units, costs.

Nothing here knows TVM. Nodes are ``0 .. nodes-1`` in program order, which is topological. Places are
``0 .. k-1`` for the k targets, and ``k`` for the host. All costs are seconds, and not negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from annotated_region.graphs import Dag, connected_parts, is_acyclic
from annotated_region.ids import Place, UnitId, ValueId, numbered
from annotated_region.placement.limits import NO_LIMITS, PlacementConstant, TargetLimits

__all__ = ["Placement", "PlacementProblem", "PlacedRegion", "PlacementUnit", "PlacementValue"]

Table = tuple[tuple[float, ...], ...]
"""Seconds to move one value, by source place and destination place; the host is last."""


@dataclass(frozen=True, slots=True)
class PlacementUnit:
    """What one place can run as a whole: one node, or the nodes of a composite.

    Attributes
    ----------
    place
        A target's index, or the number of targets for the host.
    nodes
        The nodes, ascending.
    cost
        Seconds of computing; infinite means that the unit is not offered.
    """

    place: Place
    nodes: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class PlacementValue:
    """Something that nodes exchange: the result of a node, or a parameter.

    Attributes
    ----------
    producer
        The node that makes it; None for a parameter, which the host makes.
    consumers
        The nodes that read it, ascending.
    transfer
        ``transfer[source][destination]``: seconds to move it. ``transfer[t][t]`` is what two regions of
        target t pay; the host's own diagonal is never charged.
    host_reads
        Whether the host reads it as well: it is a result, or belongs to a structure that stays outside.
    size
        Bytes, for the limits.
    """

    producer: int | None
    consumers: tuple[int, ...]
    transfer: Table
    host_reads: bool = False
    size: int = 0


@dataclass(frozen=True)
class PlacementProblem:
    """Who may run what, at which cost.

    Attributes
    ----------
    nodes
        The number of nodes.
    launch
        Seconds to enter one region, for each target.
    values
        Everything that is exchanged. A node may make any number of values.
    units
        What may be chosen. Bans and pins are units that are missing here.
    connected
        The targets whose regions must hang together (weakly); the others may hold unconnected nodes.
    single
        The targets whose regions hold one unit each.
    limits
        What each target imposes; empty if none does.
    constants
        What counts against the limits on constants.
    accepts
        Whether a target takes some units as one region; None if all take what they are given. It is asked
        about every region of an answer, and may answer as it likes of parts and wholes.
    """

    nodes: int
    launch: tuple[float, ...]
    values: tuple[PlacementValue, ...]
    units: tuple[PlacementUnit, ...]
    connected: frozenset[int] = field(default_factory=frozenset)
    single: frozenset[int] = field(default_factory=frozenset)
    limits: tuple[TargetLimits, ...] = ()
    constants: tuple[PlacementConstant, ...] = ()
    accepts: Callable[[Place, tuple[UnitId, ...]], bool] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers that do not describe a placement problem.

        Raises
        ------
        ValueError
            For a negative or undefined cost, an unknown node or place, or an edge against program order.
        """
        _check_costs(self)
        _check_values(self)
        _check_units(self)
        _check_limits(self)

    @property
    def is_limited(self) -> bool:
        """Whether some target limits its regions."""
        return self.accepts is not None or any(limits != NO_LIMITS for limits in self.limits)

    @property
    def host(self) -> Place:
        """The place of the host: the number of targets."""
        return Place(len(self.launch))

    @cached_property
    def units_of(self) -> tuple[tuple[UnitId, ...], ...]:
        """For each node, the indices of the units of finite cost that hold it, in the order given."""
        found: list[list[UnitId]] = [[] for _ in range(self.nodes)]
        for index, unit in numbered(UnitId, self.units):
            for node in unit.nodes if math.isfinite(unit.cost) else ():
                found[node].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def reads(self) -> tuple[tuple[ValueId, ...], ...]:
        """For each node, the indices of the values that it reads."""
        found: list[list[ValueId]] = [[] for _ in range(self.nodes)]
        for index, value in numbered(ValueId, self.values):
            for node in value.consumers:
                found[node].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def makes(self) -> tuple[tuple[ValueId, ...], ...]:
        """For each node, the indices of the values that it makes."""
        found: list[list[ValueId]] = [[] for _ in range(self.nodes)]
        for index, value in numbered(ValueId, self.values):
            if value.producer is not None:
                found[value.producer].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def constants_of(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the indices of the constants that it reads."""
        found: list[list[int]] = [[] for _ in range(self.nodes)]
        for index, constant in enumerate(self.constants):
            for node in constant.readers:
                found[node].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the distinct nodes that read what it makes, ascending."""
        return tuple(
            tuple(sorted({reader for value in made for reader in self.values[value].consumers}))
            for made in self.makes
        )

    @cached_property
    def dag(self) -> Dag:
        """The nodes and who reads whom, for the algorithms of `annotated_region.graphs`."""
        return Dag(self.successors)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the distinct nodes whose values it reads, ascending."""
        found: list[list[int]] = [[] for _ in range(self.nodes)]
        for node, readers in enumerate(self.successors):
            for reader in readers:
                found[reader].append(node)
        return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True)
class PlacedRegion:
    """The units that one target runs in one go, by index, ascending."""

    place: Place
    units: tuple[UnitId, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """One answer: which units run on the host, and which regions the others form.

    Attributes
    ----------
    regions
        The regions, by their first node.
    host_units
        The units of the host, ascending.
    """

    regions: tuple[PlacedRegion, ...]
    host_units: tuple[UnitId, ...]

    @property
    def units(self) -> tuple[UnitId, ...]:
        """All chosen units, ascending."""
        return tuple(sorted([*self.host_units, *(unit for region in self.regions for unit in region.units)]))

    @staticmethod
    def of(problem: PlacementProblem, groups: Sequence[Sequence[UnitId]]) -> Placement:
        """The placement whose regions are `groups` of units; units of the host are taken out of them.

        Parameters
        ----------
        problem
            Says where a unit runs and which nodes it holds.
        groups
            Units by index; the units of a group share a place.
        """
        regions: list[PlacedRegion] = []
        host: list[UnitId] = []
        for group in groups:
            place = problem.units[group[0]].place
            if place == problem.host:
                host.extend(group)
            else:
                regions.append(PlacedRegion(place, tuple(sorted(group))))
        regions.sort(key=lambda region: min(problem.units[unit].nodes[0] for unit in region.units))
        return Placement(tuple(regions), tuple(sorted(host)))

    def split(self, problem: PlacementProblem) -> Placement | None:
        """The same choice of units, with the regions of connected and of single targets cut into their parts.

        Cutting a region into parts that no value joins closes no cycle and moves no value: it costs launches.
        Cutting it into units moves the values between them; the answer is None if two units need each other.
        """
        groups: list[list[UnitId]] = [[unit] for unit in self.host_units]
        for region in self.regions:
            if region.place in problem.single:
                groups += [[unit] for unit in region.units]
            elif region.place in problem.connected:
                groups += _components(problem, region.units)
            else:
                groups.append(list(region.units))
        if not self._is_valid(problem, groups):
            return None
        return Placement.of(problem, groups)

    def _is_valid(self, problem: PlacementProblem, groups: Sequence[Sequence[UnitId]]) -> bool:
        """Whether the groups, which cut the regions of this placement, need no results of each other."""
        if all(region.place not in problem.single for region in self.regions):
            return True
        return is_acyclic(
            problem.dag, [[node for unit in group for node in problem.units[unit].nodes] for group in groups]
        )


def _components(problem: PlacementProblem, units: Sequence[UnitId]) -> list[list[UnitId]]:
    """The units of one region, by weakly connected component."""
    owner = {node: unit for unit in units for node in problem.units[unit].nodes}

    def neighbours(unit: UnitId) -> Iterator[UnitId]:
        for node in problem.units[unit].nodes:
            for other in (*problem.successors[node], *problem.predecessors[node]):
                yield owner.get(other, unit)

    return list(connected_parts(units, neighbours))


def _check_costs(problem: PlacementProblem) -> None:
    """Refuse negative and undefined costs, and transfer tables of the wrong size."""
    places = problem.host + 1
    if any(not 0 <= cost < math.inf for cost in problem.launch):
        raise ValueError(f"a launch takes a finite time that is not negative; got {problem.launch}")
    if any(not unit.cost >= 0 for unit in problem.units):
        raise ValueError("the cost of a unit is not negative; use infinity for what cannot run")
    checked: dict[int, Table] = {}
    for value in problem.values:
        table = value.transfer
        if checked.setdefault(id(table), table) is not table:
            continue
        if len(table) != places or any(len(row) != places for row in table):
            raise ValueError(f"a transfer table has {places} rows and columns: the targets, then the host")
        if any(not 0 <= cost < math.inf for row in table for cost in row):
            raise ValueError("a transfer takes a finite time that is not negative")


def _check_values(problem: PlacementProblem) -> None:
    """Refuse unknown nodes and edges against program order."""
    for value in problem.values:
        first = -1 if value.producer is None else value.producer
        known = -1 <= first < problem.nodes and all(0 <= node < problem.nodes for node in value.consumers)
        if not known or list(value.consumers) != sorted(set(value.consumers)):
            raise ValueError(f"{value} does not name nodes, each once and ascending")
        if value.consumers and value.consumers[0] <= first:
            raise ValueError(f"{value} is read before it is made: nodes must come in program order")


def _check_units(problem: PlacementProblem) -> None:
    """Refuse units of unknown places or nodes, and composites on the host."""
    for unit in problem.units:
        known = 0 <= unit.place <= problem.host and all(0 <= node < problem.nodes for node in unit.nodes)
        if not known or not unit.nodes or list(unit.nodes) != sorted(set(unit.nodes)):
            raise ValueError(f"{unit} does not name a place and nodes, each once and ascending")
        if unit.place == problem.host and len(unit.nodes) > 1:
            raise ValueError(f"{unit}: the host runs single nodes")


def _check_limits(problem: PlacementProblem) -> None:
    """Refuse limits of unknown targets and constants of unknown nodes."""
    if problem.limits and len(problem.limits) != problem.host:
        raise ValueError(
            f"{len(problem.limits)} limits for {problem.host} targets: give one for each, or none"
        )
    for limits in problem.limits:
        given = (limits.ops, limits.constant_bytes, limits.workspace_bytes)
        if not limits.is_kept or any(limit is not None and limit < 0 for limit in given):
            raise ValueError(f"a limit is not negative: {limits}")
    for constant in problem.constants:
        known = all(0 <= node < problem.nodes for node in constant.readers)
        if not constant.readers or not known or list(constant.readers) != sorted(set(constant.readers)):
            raise ValueError(f"{constant} does not name nodes, each once and ascending")
