"""The placement problem as plain numbers: nodes, values, units, costs.

It is independent of TVM. Nodes are ``0 .. nodes-1`` in program order, which is topological. Places are
``0 .. k-1`` for the k targets, and ``k`` for the host. All costs are nonnegative seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from annotated_region.errors import PolicyError
from annotated_region.graphs import Dag, connected_parts, is_acyclic
from annotated_region.ids import Place, UnitId, ValueId, numbered
from annotated_region.placement.limits import NO_LIMITS, PlacementConstant, TargetLimits

__all__ = ["Placement", "PlacementProblem", "PlacedRegion", "PlacementUnit", "PlacementValue"]

Table = tuple[tuple[float, ...], ...]
"""Seconds to move one value, by source place and destination place; the host is last."""


@dataclass(frozen=True, slots=True)
class PlacementUnit:
    """A choice for a place: a single node, or the nodes of a composite.

    Attributes
    ----------
    place
        A target's index, or the number of targets for the host.
    nodes
        The nodes, ascending.
    cost
        Seconds of compute; infinite if the unit is not available.
    """

    place: Place
    nodes: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class PlacementValue:
    """An edge value: the result of a node, or a parameter.

    Attributes
    ----------
    producer
        The node that defines it; None for a parameter, which the host defines.
    consumers
        The nodes that read it, ascending.
    transfer
        ``transfer[source][destination]``: seconds to move it. ``transfer[t][t]`` is the time between two
        regions of target t; the diagonal entry of the host is never charged.
    host_reads
        Whether the host reads it as well: it is a result, or part of a tuple outside regions.
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
    """The available units, their costs, and the constraints on regions.

    Attributes
    ----------
    nodes
        The number of nodes.
    launch
        Seconds to enter one region, for each target.
    values
        All values. A node may define any number of values.
    units
        The available units. Bans and pins are expressed by omitting units.
    connected
        The targets whose regions must be weakly connected; regions of other targets may be disconnected.
    single
        The targets whose regions hold one unit each.
    limits
        The limits of each target; empty if there are none.
    constants
        The constants that count against the limits.
    accepts
        Whether a target accepts some units as one region; None if all regions are accepted. It is called
        for every region of a solution, and need not be monotone.
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
        """Reject invalid problems.

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
        """Whether any target limits its regions."""
        return self.accepts is not None or any(limits != NO_LIMITS for limits in self.limits)

    @cached_property
    def host(self) -> Place:
        """The place of the host: the number of targets."""
        return Place(len(self.launch))

    @cached_property
    def units_of(self) -> tuple[tuple[UnitId, ...], ...]:
        """For each node, the indices of the units of finite cost that contain it, in the given order."""
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
        """For each node, the indices of the values that it defines."""
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
        """For each node, the distinct nodes that read its values, ascending."""
        return tuple(
            tuple(sorted({reader for value in made for reader in self.values[value].consumers}))
            for made in self.makes
        )

    @cached_property
    def dag(self) -> Dag:
        """The nodes and their edges, for the algorithms of `annotated_region.graphs`."""
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
    """The units of one region of a target, by index, ascending."""

    place: Place
    units: tuple[UnitId, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A candidate solution: the units on the host, and the regions of the others.

    Attributes
    ----------
    regions
        The regions, ordered by their first node.
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
        """The placement whose regions are the `groups` of targets; the units of host groups run on the host.

        Parameters
        ----------
        problem
            The problem, with the places and nodes of its units.
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
        """The same choice of units, with the regions of connected and of single targets split.

        Splitting a region into its connected components closes no cycle and adds no transfers, only launches.
        Splitting it into units adds transfers between them, and returns None if two units depend on each
        other.
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
        """Whether the groups, which partition the regions of this placement, have an acyclic quotient."""
        if all(region.place not in problem.single for region in self.regions):
            return True
        return is_acyclic(
            problem.dag, [[node for unit in group for node in problem.units[unit].nodes] for group in groups]
        )


def _components(problem: PlacementProblem, units: Sequence[UnitId]) -> list[list[UnitId]]:
    """The weakly connected components of the units of one region."""
    owner = {node: unit for unit in units for node in problem.units[unit].nodes}

    def neighbours(unit: UnitId) -> Iterator[UnitId]:
        for node in problem.units[unit].nodes:
            for other in (*problem.successors[node], *problem.predecessors[node]):
                yield owner.get(other, unit)

    return list(connected_parts(units, neighbours))


def _check_costs(problem: PlacementProblem) -> None:
    """Reject negative and undefined costs, and transfer tables of the wrong size."""
    places = problem.host + 1
    if any(not 0 <= cost < math.inf for cost in problem.launch):
        raise PolicyError(f"a launch takes a finite time that is not negative; got {problem.launch}")
    wrong = [unit.cost for unit in problem.units if not unit.cost >= 0]
    if wrong:
        raise PolicyError(
            f"the cost of a unit is not negative; got {wrong[0]}; use infinity for what cannot run"
        )
    checked: dict[int, Table] = {}
    for value in problem.values:
        table = value.transfer
        if checked.setdefault(id(table), table) is not table:
            continue
        if len(table) != places or any(len(row) != places for row in table):
            raise ValueError(f"a transfer table has {places} rows and columns: the targets, then the host")
        if any(not 0 <= cost < math.inf for row in table for cost in row):
            raise PolicyError("a transfer takes a finite time that is not negative")


def _check_values(problem: PlacementProblem) -> None:
    """Reject unknown nodes and edges against program order."""
    for value in problem.values:
        first = -1 if value.producer is None else value.producer
        known = -1 <= first < problem.nodes and all(0 <= node < problem.nodes for node in value.consumers)
        if not known or not _is_ascending(value.consumers):
            raise ValueError(f"{value} does not name nodes, each once and ascending")
        if value.consumers and value.consumers[0] <= first:
            raise ValueError(f"{value} is read before it is made: nodes must come in program order")


def _check_units(problem: PlacementProblem) -> None:
    """Reject units of unknown places or nodes, and composites on the host."""
    for unit in problem.units:
        known = 0 <= unit.place <= problem.host and all(0 <= node < problem.nodes for node in unit.nodes)
        if not known or not unit.nodes or not _is_ascending(unit.nodes):
            raise ValueError(f"{unit} does not name a place and nodes, each once and ascending")
        if unit.place == problem.host and len(unit.nodes) > 1:
            raise ValueError(f"{unit}: the host runs single nodes")


def _check_limits(problem: PlacementProblem) -> None:
    """Reject limits of unknown targets and constants of unknown nodes."""
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
        if not constant.readers or not known or not _is_ascending(constant.readers):
            raise ValueError(f"{constant} does not name nodes, each once and ascending")


def _is_ascending(nodes: Sequence[int]) -> bool:
    """Whether each node is larger than the one before."""
    return len(nodes) < 2 or all(left < right for left, right in pairwise(nodes))
