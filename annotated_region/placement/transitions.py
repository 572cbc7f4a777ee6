"""The transitions of the dynamic program: the choices for the next node, and their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from annotated_region.ids import Place, UnitId, ValueId, numbered
from annotated_region.placement.elimination import Step
from annotated_region.placement.joining import Advanced, Joining, advance
from annotated_region.placement.prices import Potential
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.shapes import (
    HOST,
    Choice,
    PlacementShape,
    PlacementShapes,
    Stand,
    open_regions,
)

__all__ = ["Move", "Transitions"]

REMEMBERED = 200_000
"""The size of the shape cache; long networks repeat few shapes."""


class Row(NamedTuple):
    """The effect of reading one value, for given paid destinations.

    Attributes
    ----------
    rise
        The increase of the bound.
    paid
        The paid destinations of the value afterwards, as a bit set of places.
    """

    rise: float
    paid: int


class Reading(NamedTuple):
    """The effect of reading one value on every label of one shape.

    Attributes
    ----------
    shift
        The offset of the value's paid destinations in a label's bit set.
    rows
        The effect of reading, indexed by the bit set of paid destinations before.
    to
        The offset of the paid destinations after the step.
    """

    shift: int
    rows: list[Row]
    to: int


@dataclass(frozen=True, slots=True)
class Move:
    """The effect of one choice on every label of one shape.

    Attributes
    ----------
    rise
        The increase of the bound that does not depend on paid destinations.
    made_bits
        The destinations of the new values that are paid immediately, in their slots.
    readings
        The values read.
    """

    rise: float
    made_bits: int
    readings: tuple[Reading, ...]


class _Made(NamedTuple):
    """The immediately paid destinations of the values defined at a step, in their slots, and the cost."""

    bits: int
    cost: float


class _Read(NamedTuple):
    """A value that a step reads: its slot before, and the offset of its paid destinations afterwards."""

    value: ValueId
    slot: int
    to: int


class _Shift(NamedTuple):
    """Paid destinations that move together when slots are renumbered: a bit mask, and the shift down."""

    mask: int
    by: int


_ReadingKey = tuple[ValueId, Place, Place, bool]
"""A value, its place, the place of its reader, and whether they are in one region."""

_AdvanceKey = tuple[int, PlacementShape, int, Place]
"""The signature of a step, a shape before it, and the region and place of the step's node."""


@dataclass(slots=True)
class _StepFacts:
    """The parts of a transition that do not depend on the shape, computed once per step.

    Attributes
    ----------
    shifts
        The moves of the paid destinations of values that the step neither reads nor defines.
    signature
        A number that is equal for steps with the same effect on every shape.
    reads
        The values that the node reads.
    made
        The effect of defining its values, by the place of the node.
    readings
        The effect of reading its values.
    """

    shifts: list[_Shift]
    signature: int
    reads: list[_Read]
    made: dict[Place, _Made] = field(default_factory=dict)
    readings: dict[_ReadingKey, Reading] = field(default_factory=dict)


class Transitions:
    """The steps of one problem in one order, priced by one potential.

    The paid destinations of all live values are one bit set: `places` bits for each slot, the lowest for
    slot 0. A set bit means that the value has been sent to that place, so further readers there are free.
    """

    def __init__(self, problem: PlacementProblem, steps: Sequence[Step], potential: Potential) -> None:
        self.problem = problem
        self.steps = steps
        self.potential = potential
        self.places = problem.host + 1
        self.shapes = PlacementShapes()
        self._host = problem.host
        self._parameter = Stand(problem.host, HOST, 0)
        self._mask = (1 << self.places) - 1
        position = {step.node: index for index, step in enumerate(steps)}
        self._first: list[list[UnitId]] = [[] for _ in steps]
        self._last: dict[UnitId, int] = {}
        for index, unit in numbered(UnitId, problem.units):
            if math.isfinite(unit.cost):
                visits = [position[node] for node in unit.nodes]
                self._first[min(visits)].append(index)
                self._last[index] = max(visits)
        self._readers_after = self._remaining_readers(position)
        self._signatures: dict[tuple[object, ...], int] = {}
        self._facts = [self._facts_of(step) for step in steps]
        self._advanced: dict[_AdvanceKey, Advanced | None] = {}

    def spanned(self) -> list[bool]:
        """For each step, whether some unit has nodes up to the step and after it."""
        change = [0] * (len(self.steps) + 1)
        for first, units in enumerate(self._first):
            for unit in units:
                change[first] += 1
                change[self._last[unit]] -= 1
        found, open_units = [], 0
        for delta in change[: len(self.steps)]:
            open_units += delta
            found.append(open_units > 0)
        return found

    def choices(self, index: int, shape: PlacementShape) -> list[Choice]:
        """The choices for the node of step `index`."""
        units = self.problem.units
        node = self.steps[index].node
        for begun in shape.pending:
            if node in units[begun.unit].nodes:
                return [begun]
        choices: list[Choice] = []
        for unit in self._first[index]:
            nodes = units[unit].nodes
            if any(not set(nodes).isdisjoint(units[other].nodes) for other, _ in shape.pending):
                continue
            place = units[unit].place
            if place == self._host:
                choices.append(Choice(unit, HOST))
            else:
                if place not in self.problem.single:
                    choices += [Choice(unit, region) for region in open_regions(shape, place)]
                choices.append(Choice(unit, len(shape.regions)))
        return choices

    def shape_after(self, index: int, shape: PlacementShape, choice: Choice) -> Advanced | None:
        """The shape after this choice, and the regions that it keeps; None if it closes a cycle."""
        step = self.steps[index]
        place = self.problem.units[choice.unit].place
        pending = self._pending_after(index, shape.pending, choice)
        if pending:
            return advance(self.shapes, step, shape, Joining(choice.region, place, pending, self._host))
        key = (self._facts[index].signature, shape, choice.region, place)
        if key not in self._advanced:
            if len(self._advanced) >= REMEMBERED:
                self._advanced.clear()
            joining = Joining(choice.region, place, (), self._host)
            self._advanced[key] = advance(self.shapes, step, shape, joining)
        return self._advanced[key]

    def _pending_after(self, index: int, pending: tuple[Choice, ...], choice: Choice) -> tuple[Choice, ...]:
        """The started but incomplete composites after this choice."""
        if self._last[choice.unit] == index:
            return tuple(begun for begun in pending if begun.unit != choice.unit) if pending else pending
        return pending if any(begun.unit == choice.unit for begun in pending) else (*pending, choice)

    def move(self, index: int, shape: PlacementShape, choice: Choice) -> Move:
        """The effect of this choice on the labels of `shape`."""
        unit, region = choice
        place = self.problem.units[unit].place
        facts = self._facts[index]
        if place not in facts.made:
            facts.made[place] = self._made(index, place)
        made_bits, rise = facts.made[place]
        rise += self.potential.node(self.steps[index].node, unit)
        if region == len(shape.regions):
            rise += self.problem.launch[place]
        return Move(rise, made_bits, self._readings(index, shape, region, place))

    def _readings(self, index: int, shape: PlacementShape, region: int, place: Place) -> tuple[Reading, ...]:
        """The effect of reading the values of this step at `place` in `region` on every label of `shape`."""
        facts = self._facts[index]
        found = []
        for read in facts.reads:
            arrives = read.slot >= len(shape.stands)
            stand = self._parameter if arrives else shape.stands[read.slot]
            key = (read.value, stand.place, place, stand.region == region != HOST)
            known = facts.readings.get(key)
            if known is None:
                known = Reading(read.slot * self.places, self._rows(index, key), read.to)
                facts.readings[key] = known
            found.append(known)
        return tuple(found)

    def paid_after(self, index: int, charged: int) -> int:
        """The paid destinations of values that the step does not read or define, in their new slots."""
        after = 0
        for mask, by in self._facts[index].shifts:
            after |= (charged & mask) >> by
        return after

    def useful_bits(self, value: ValueId, readers: Sequence[int], source: Place) -> int:
        """The destinations to track: those with a cost that are possible places of a reader."""
        row = self.problem.values[value].transfer[source]
        bits = 0
        for reader in readers:
            for unit in self.problem.units_of[reader]:
                place = self.problem.units[unit].place
                bits |= (row[place] > 0) << place
        return bits & ~(1 << source) if source == self._host else bits

    def readers_after(self, value: ValueId, index: int) -> tuple[int, ...]:
        """The readers of `value` after step `index`, which defines or reads it."""
        return self._readers_after[value, index]

    def _remaining_readers(self, position: dict[int, int]) -> dict[tuple[ValueId, int], tuple[int, ...]]:
        """For each pair of a value and a step that defines or reads it: the later readers of the value."""
        found = {}
        for index, value in numbered(ValueId, self.problem.values):
            readers = sorted(value.consumers, key=position.__getitem__)
            if value.producer is not None:
                found[index, position[value.producer]] = tuple(readers)
            for rank, reader in enumerate(readers):
                found[index, position[reader]] = tuple(readers[rank + 1 :])
        return found

    def _facts_of(self, step: Step) -> _StepFacts:
        """The facts of a step: bit moves, cache signature, and offsets of reads."""
        new_slot = {slot: rank for rank, slot in enumerate(step.kept)}
        touched = {slot for _, slot in step.inputs}
        shifts: dict[int, int] = {}
        for slot, rank in new_slot.items():
            if slot not in touched:
                shift = (slot - rank) * self.places
                shifts[shift] = shifts.get(shift, 0) | self._mask << slot * self.places
        slots = tuple(slot for _, slot in step.inputs)
        places = (step.later_places, step.source_places, step.detached_places)
        counts = (len(step.arrivals), len(step.made))
        key = (slots, step.kept, counts, step.ready, places)
        signature = self._signatures.setdefault(key, len(self._signatures))
        reads = [_Read(value, slot, new_slot.get(slot, 0) * self.places) for value, slot in step.inputs]
        return _StepFacts([_Shift(mask, by) for by, mask in shifts.items()], signature, reads)

    def _made(self, index: int, place: Place) -> _Made:
        """The effect of defining the values of this step at `place`."""
        bits, cost = 0, 0.0
        step = self.steps[index]
        slot = len(step.kept)
        host = self._host
        for value in self.problem.makes[step.node]:
            charged = 0
            described = self.problem.values[value]
            if described.host_reads and place != host:
                cost += described.transfer[place][host]
                charged = 1 << host
            readers = self._readers_after[value, index]
            charged &= self.useful_bits(value, readers, place)
            cost += self.potential.made(value, place) + self.potential.rest(value, readers, place, charged)
            if readers:
                bits |= charged << slot * self.places
                slot += 1
        return _Made(bits, cost)

    def _rows(self, index: int, key: _ReadingKey) -> list[Row]:
        """For each set of paid destinations, the effect of reading a value."""
        value, source, place, same_region = key
        host = self._host
        node = self.steps[index].node
        after = self._readers_after[value, index]
        before = (node, *after)
        useful = self.useful_bits(value, after, source)
        free = same_region or (source == host and place == host)
        price = 0.0 if free else self.problem.values[value].transfer[source][place]
        fixed = self.potential.read(value, node, place)
        rows = []
        for charged in range(1 << self.places):
            paid = charged if free else charged | 1 << place
            rise = fixed + (price if paid != charged else 0.0)
            rise -= self.potential.rest(value, before, source, charged)
            paid &= useful
            rise += self.potential.rest(value, after, source, paid)
            rows.append(Row(rise, paid))
        return rows
