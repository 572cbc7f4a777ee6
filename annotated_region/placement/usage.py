"""The use of limited resources by a partial placement, and its change at a step.

For each open region only the limited resources are tracked, so that partial placements with the same
continuations compare equal. Regions and slots have the numbers of the
shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from annotated_region.ids import Place, UnitId
from annotated_region.placement.elimination import Step
from annotated_region.placement.joining import Advanced
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.shapes import HOST, Choice, PlacementShape
from annotated_region.placement.uses import Uses

__all__ = ["RegionUsage", "StepUsage", "TargetUsage", "Usage", "UsageRules"]


class RegionUsage(NamedTuple):
    """The resource use of an open region.

    Attributes
    ----------
    ops, constants, workspace
        As in `TargetLimits`; 0 if the target does not limit it.
    common
        The constants in it that later nodes read as well, as a bit set.
    units
        Its units, ascending; empty if its target accepts any set of units.
    """

    ops: int = 0
    constants: int = 0
    workspace: int = 0
    common: int = 0
    units: tuple[UnitId, ...] = ()


class TargetUsage(NamedTuple):
    """The resource use of a target: regions and bytes of memory, 0 if not limited."""

    regions: int = 0
    memory: int = 0


class Usage(NamedTuple):
    """The resource use of a partial placement.

    Attributes
    ----------
    regions
        The use of each open region.
    targets
        The use of each target.
    inner
        The slots whose values may still be intermediate, as a bit set: all their readers so far are
        in the defining region.
    """

    regions: tuple[RegionUsage, ...]
    targets: tuple[TargetUsage, ...]
    inner: int = 0

    def at_most(self, other: Usage) -> bool:
        """Whether every continuation of the other usage is valid for this one."""
        if self.inner & ~other.inner or not self.needs_at_most(other):
            return False
        for own, theirs in zip(self.regions, other.regions, strict=True):
            if own.ops > theirs.ops or own.constants > theirs.constants or own.workspace > theirs.workspace:
                return False
            if theirs.common & ~own.common or own.units != theirs.units:
                return False
        return True

    def needs_at_most(self, other: Usage) -> bool:
        """Whether every target has at most as many regions and bytes as in the other usage."""
        for mine, its in zip(self.targets, other.targets, strict=True):
            if mine.regions > its.regions or mine.memory > its.memory:
                return False
        return True


_NEW = RegionUsage()


@dataclass(frozen=True, slots=True)
class StepUsage:
    """The effect of one choice at one step on the usage of every label of one shape.

    Attributes
    ----------
    place, region
        The place and region of the node, as in `Choice`.
    unit
        The unit that starts; None for the host, and for a unit that has already started.
    founds
        Whether the region is new.
    crossed
        The slots whose values are read outside their region, as a bit set.
    ending
        For each value that dies: its slot, its region and its bytes.
    kept
        The slots that stay live, in their new order.
    inner
        The slots of new values that may be intermediate, as a bit set, in the new numbering.
    standing
        The slots whose values are in open regions afterwards, as a bit set, in the new numbering.
    origin
        The regions that stay open, by their old numbers.
    closing
        The regions that are closed.
    alive
        The constants that later nodes read, as a bit set.
    """

    place: Place
    region: int
    unit: UnitId | None
    founds: bool
    crossed: int
    ending: tuple[tuple[int, int, int], ...]
    kept: tuple[int, ...]
    inner: int
    standing: int
    origin: tuple[int, ...]
    closing: tuple[int, ...]
    alive: int


class UsageRules:
    """Updates usages over steps, and detects violations of limits."""

    def __init__(self, problem: PlacementProblem, uses: Uses, steps: Sequence[Step]) -> None:
        self._problem = problem
        self._uses = uses
        self._limits = [uses.limits(Place(place)) for place in range(problem.host)]
        self._handed_on = [frozenset(use.handed_on) for use in uses.of]
        self._alive = _alive_constants(problem, steps)
        self._common = [sum(1 << index for index in use.common) for use in uses.of]
        self._answers: dict[tuple[UnitId, ...], bool] = {}

    def start(self) -> Usage:
        """The usage of the empty placement."""
        return Usage((), (TargetUsage(),) * self._problem.host)

    def change(
        self, index: int, step: Step, shape: PlacementShape, choice: Choice, moved: Advanced
    ) -> StepUsage:
        """The effect of a choice on the usage of the labels of `shape`."""
        problem = self._problem
        unit, region = choice
        place = problem.units[unit].place
        founds = region == len(shape.regions)
        begins = region != HOST and all(begun.unit != unit for begun in shape.pending)
        made_in = [stand.region for stand in shape.stands] + [HOST] * len(step.arrivals)
        ends = set(range(len(made_in))) - set(step.kept)
        value_of = {slot: value for value, slot in step.inputs}
        ending = tuple(
            (slot, made_in[slot], problem.values[value_of[slot]].size)
            for slot in sorted(ends)
            if made_in[slot] != HOST
        )
        return StepUsage(
            place,
            region,
            unit if begins else None,
            founds,
            sum(1 << slot for _, slot in step.inputs if made_in[slot] != region),
            ending,
            step.kept,
            self._inner(step, choice, place) << len(step.kept),
            sum(1 << slot for slot, stand in enumerate(moved.shape.stands) if stand.region != HOST),
            moved.origin,
            tuple(sorted(set(range(len(shape.regions) + founds)) - set(moved.origin))),
            self._alive[index],
        )

    def _inner(self, step: Step, choice: Choice, place: Place) -> int:
        """The new values that may be intermediate, as a bit set."""
        if choice.region == HOST or self._limits[place].workspace_bytes is None:
            return 0
        handed_on = self._handed_on[choice.unit]
        return sum(
            1 << index
            for index, value in enumerate(step.made)
            if value in handed_on and not self._problem.values[value].host_reads
        )

    def after(self, usage: Usage, change: StepUsage) -> Usage | None:
        """The usage after a step; None if it violates a limit."""
        regions = [*usage.regions, _NEW] if change.founds else list(usage.regions)
        targets = usage.targets
        if change.unit is not None:
            grown = self._grown(regions[change.region], targets, change)
            if grown is None:
                return None
            regions[change.region], targets = grown
        inner = usage.inner & ~change.crossed
        for slot, region, size in change.ending:  # values still inner: all readers are in this region
            if inner >> slot & 1:
                regions[region] = regions[region]._replace(workspace=regions[region].workspace + size)
                limit = self._limits[change.place].workspace_bytes
                if limit is not None and regions[region].workspace > limit:
                    return None
        for region in change.closing:
            if regions[region].units and not self._takes(regions[region].units):
                return None
        after = change.inner
        for new, old in enumerate(change.kept if inner else ()):
            after |= (inner >> old & 1) << new
        kept = [regions[region] for region in change.origin]
        alive = change.alive
        if any(each.common & ~alive for each in kept):
            kept = [each._replace(common=each.common & alive) for each in kept]
        return Usage(tuple(kept), targets, after & change.standing)

    def _grown(
        self, region: RegionUsage, targets: tuple[TargetUsage, ...], change: StepUsage
    ) -> tuple[RegionUsage, tuple[TargetUsage, ...]] | None:
        """The usage of a region and of the targets with one more unit; None if that violates a limit."""
        unit, place = change.unit, change.place
        assert unit is not None
        limits, use = self._limits[place], self._uses.of[unit]
        fresh = self._common[unit] & ~region.common
        constants = use.own + (self._bytes(fresh) if fresh else 0)
        ops = region.ops + use.ops if limits.ops is not None else 0
        held = region.constants + constants if limits.constant_bytes is not None else 0
        if limits.ops is not None and ops > limits.ops:
            return None
        if limits.constant_bytes is not None and held > limits.constant_bytes:
            return None
        count, memory = targets[place]
        if limits.regions is not None:
            count += change.founds
            if count > limits.regions:
                return None
        if limits.budget_bytes is not None:
            memory += constants + use.made
            if memory > limits.budget_bytes:
                return None
        counts = limits.constant_bytes is not None or limits.budget_bytes is not None
        common = region.common | self._common[unit] if counts else 0
        units = tuple(sorted((*region.units, unit))) if self._problem.accepts is not None else ()
        changed = list(targets)
        changed[place] = TargetUsage(count, memory)
        return RegionUsage(ops, held, region.workspace, common, units), tuple(changed)

    def _bytes(self, constants: int) -> int:
        """The bytes of a bit set of constants."""
        total = 0
        while constants:
            lowest = constants & -constants
            total += self._problem.constants[lowest.bit_length() - 1].size
            constants ^= lowest
        return total

    def _takes(self, units: tuple[UnitId, ...]) -> bool:
        """Whether the target of some units accepts them as a region."""
        accepts = self._problem.accepts
        assert accepts is not None
        if units not in self._answers:
            self._answers[units] = accepts(self._problem.units[units[0]].place, units)
        return self._answers[units]


def _alive_constants(problem: PlacementProblem, steps: Sequence[Step]) -> list[int]:
    """For each step, the constants that later nodes read, as a bit set."""
    position = {step.node: index for index, step in enumerate(steps)}
    ending: list[int] = [0] * len(steps)
    alive = 0
    for index, constant in enumerate(problem.constants):
        ending[max(position[node] for node in constant.readers)] |= 1 << index
        alive |= 1 << index
    found = []
    for bits in ending:
        alive &= ~bits
        found.append(alive)
    return found
