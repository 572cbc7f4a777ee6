"""The use of limited resources by units and groups of units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from annotated_region.ids import Place, UnitId, ValueId, numbered
from annotated_region.placement.limits import NO_LIMITS, TargetLimits
from annotated_region.placement.problem import Placement, PlacementProblem

__all__ = ["UnitUse", "Uses"]


@dataclass(frozen=True, slots=True)
class UnitUse:
    """The resource use of one unit.

    Attributes
    ----------
    ops
        Its number of nodes.
    own
        Bytes of the constants that only this unit reads.
    common
        The constants that other nodes read as well, by index.
    handed_on
        Its values with readers outside the unit.
    made
        Their bytes.
    """

    ops: int
    own: int
    common: tuple[int, ...]
    handed_on: tuple[ValueId, ...]
    made: int


class Uses:
    """The resource use of each unit of a problem.

    Attributes
    ----------
    of
        The use of each unit.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self.of = [self._use(unit.nodes) for unit in problem.units]

    def _use(self, nodes: Sequence[int]) -> UnitUse:
        problem = self._problem
        inside = set(nodes)
        read = dict.fromkeys(index for node in nodes for index in problem.constants_of[node])
        own = {index for index in read if inside.issuperset(problem.constants[index].readers)}
        handed_on = tuple(
            value
            for node in nodes
            for value in problem.makes[node]
            if problem.values[value].host_reads or not inside.issuperset(problem.values[value].consumers)
        )
        return UnitUse(
            len(nodes),
            sum(problem.constants[index].size for index in own),
            tuple(index for index in read if index not in own),
            handed_on,
            sum(problem.values[value].size for value in handed_on),
        )

    @property
    def counts_units(self) -> bool:
        """Whether the chosen units alone, not their regions, decide which limits are respected: budgets of
        memory are the only limits, and no constant is shared by units of such a target.
        """
        if self._problem.accepts is not None:
            return False
        limited = {
            place
            for place, limits in numbered(Place, self._problem.limits)
            if limits.budget_bytes is not None
        }
        shared = (
            bool(use.common) and unit.place in limited
            for unit, use in zip(self._problem.units, self.of, strict=True)
        )
        return not any(shared) and all(
            limits == TargetLimits(budget_bytes=limits.budget_bytes) for limits in self._problem.limits
        )

    def limits(self, place: Place) -> TargetLimits:
        """The limits of a place; none for the host."""
        limits = self._problem.limits
        return limits[place] if place < len(limits) else NO_LIMITS

    def constants(self, units: Iterable[UnitId]) -> int:
        """Bytes of the constants of a region of these units."""
        common: dict[int, None] = {}
        own = 0
        for unit in units:
            own += self.of[unit].own
            common |= dict.fromkeys(self.of[unit].common)
        return own + sum(self._problem.constants[index].size for index in common)

    def memory(self, units: Sequence[UnitId]) -> int:
        """The bytes that a region of these units counts against the budget of its target."""
        return self.constants(units) + sum(self.of[unit].made for unit in units)

    def least_memory(self, unit: UnitId) -> float:
        """A lower bound on the memory of a unit, with common constants divided among all readers.

        The sum over the units of a region never exceeds `memory`.
        """
        use = self.of[unit]
        inside = set(self._problem.units[unit].nodes)
        shared = 0.0
        for index in use.common:
            constant = self._problem.constants[index]
            shared += constant.size * len(inside.intersection(constant.readers)) / len(constant.readers)
        return use.own + use.made + shared

    def workspace(self, units: Iterable[UnitId]) -> int:
        """Bytes of the intermediate tensors of a region of these units."""
        chosen = list(units)
        inside = {node for unit in chosen for node in self._problem.units[unit].nodes}
        values = (self._problem.values[value] for unit in chosen for value in self.of[unit].handed_on)
        return sum(
            value.size for value in values if not value.host_reads and inside.issuperset(value.consumers)
        )

    def fits(self, place: Place, units: Sequence[UnitId]) -> bool:
        """Whether one region may hold these units, by its limits and by `PlacementProblem.accepts`."""
        limits, problem = self.limits(place), self._problem
        if limits.ops is not None and sum(self.of[unit].ops for unit in units) > limits.ops:
            return False
        if limits.constant_bytes is not None and self.constants(units) > limits.constant_bytes:
            return False
        if limits.workspace_bytes is not None and self.workspace(units) > limits.workspace_bytes:
            return False
        return problem.accepts is None or place == problem.host or problem.accepts(place, tuple(units))

    def can_fit(self, unit: UnitId) -> bool:
        """Whether some region may hold a unit; checks only conditions that hold for every
        region with this unit.
        """
        place = self._problem.units[unit].place
        limits = self.limits(place)
        if limits.regions == 0 or (
            limits.budget_bytes is not None and self.memory([unit]) > limits.budget_bytes
        ):
            return False
        if place in self._problem.single:
            return self.fits(place, [unit])
        if limits.ops is not None and self.of[unit].ops > limits.ops:
            return False
        return limits.constant_bytes is None or self.constants([unit]) <= limits.constant_bytes

    def keeps(self, placement: Placement) -> bool:
        """Whether a placement respects all limits."""
        counts = [0] * self._problem.host
        memory = [0] * self._problem.host
        for region in placement.regions:
            if not self.fits(region.place, region.units):
                return False
            counts[region.place] += 1
            memory[region.place] += self.memory(region.units)
        for place, limits in numbered(Place, self._problem.limits):
            if limits.regions is not None and counts[place] > limits.regions:
                return False
            if limits.budget_bytes is not None and memory[place] > limits.budget_bytes:
                return False
        return True
