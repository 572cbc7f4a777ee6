"""One step of the dynamic program: what a partial placement can do with the next node, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from annotated_region.placement.elimination import Step
from annotated_region.placement.prices import Potential
from annotated_region.placement.problem import PlacementProblem
from annotated_region.placement.shapes import HOST, Pending, Shape, advance, open_regions, source_place

__all__ = ["Choice", "Move", "Transitions"]

Choice = tuple[int, int]
"""A unit that covers the node, and the region that it joins: an index, the number of open ones, or HOST."""

Row = tuple[float, int]
"""What a read adds to the bound, and the destinations that are paid afterwards."""

REMEMBERED = 200_000
"""Shapes to remember; long networks repeat the same few."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one choice does to every label of one shape.

    Attributes
    ----------
    rise
        What it adds to the bound whatever has been paid.
    made_bits
        The destinations of the new values that are paid at once, in their slots.
    reads
        For each value read: where its paid destinations stand, what they lead to, where they go.
    """

    rise: float
    made_bits: int
    reads: tuple[tuple[int, list[Row], int], ...]


@dataclass(slots=True)
class _StepFacts:
    """What does not depend on the shape, worked out once a step."""

    shifts: list[tuple[int, int]]
    signature: int
    reads: list[tuple[int, int, int]]
    made: dict[int, tuple[int, float]] = field(default_factory=dict)
    tables: dict[tuple[int, int, int, bool], list[Row]] = field(default_factory=dict)


class Transitions:
    """The steps of one problem in one order, priced by one potential."""

    def __init__(self, problem: PlacementProblem, steps: Sequence[Step], potential: Potential) -> None:
        self.problem = problem
        self.steps = steps
        self.potential = potential
        self.places = problem.host + 1
        self._mask = (1 << self.places) - 1
        position = {step.node: index for index, step in enumerate(steps)}
        self._first: list[list[int]] = [[] for _ in steps]
        self._last: dict[int, int] = {}
        for index, unit in enumerate(problem.units):
            if math.isfinite(unit.cost):
                visits = [position[node] for node in unit.nodes]
                self._first[min(visits)].append(index)
                self._last[index] = max(visits)
        self._readers_after = self._remaining_readers(position)
        self._signatures: dict[tuple[object, ...], int] = {}
        self._facts = [self._facts_of(step) for step in steps]
        self._advanced: dict[tuple[object, ...], tuple[Shape, tuple[int, ...]] | None] = {}

    def spanned(self) -> list[bool]:
        """For each step, whether some unit has nodes on both sides of its end."""
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

    def choices(self, index: int, shape: Shape) -> list[Choice]:
        """What may cover the node of step `index`."""
        units = self.problem.units
        if shape[2]:
            node = self.steps[index].node
            for unit, region in shape[2]:
                if node in units[unit].nodes:
                    return [(unit, region)]
        choices = []
        for unit in self._first[index]:
            nodes = units[unit].nodes
            if any(not set(nodes).isdisjoint(units[other].nodes) for other, _ in shape[2]):
                continue
            place = units[unit].place
            if place == self.problem.host:
                choices.append((unit, HOST))
            else:
                choices += [(unit, region) for region in open_regions(shape, place, self.places)]
                choices.append((unit, len(shape[1])))
        return choices

    def shape_after(self, index: int, shape: Shape, choice: Choice) -> tuple[Shape, tuple[int, ...]] | None:
        """The shape after this choice, and which regions it keeps; None if it closes a cycle."""
        unit, region = choice
        pending = self._pending_after(index, shape[2], choice)
        key = (self._facts[index].signature, shape[0], shape[1], region, self.problem.units[unit].place)
        if pending:
            return advance(self.steps[index], shape, region, key[-1], pending, self.places)
        if key not in self._advanced:
            if len(self._advanced) >= REMEMBERED:
                self._advanced.clear()
            self._advanced[key] = advance(self.steps[index], shape, region, key[-1], (), self.places)
        return self._advanced[key]

    def _pending_after(self, index: int, pending: Pending, choice: Choice) -> Pending:
        """The composites that are begun and not complete after this choice."""
        unit, _ = choice
        if self._last[unit] == index:
            return tuple(entry for entry in pending if entry[0] != unit) if pending else pending
        return pending if any(other == unit for other, _ in pending) else (*pending, choice)

    def move(self, index: int, shape: Shape, choice: Choice) -> Move:
        """What this choice does to the labels of `shape`."""
        unit, region = choice
        place = self.problem.units[unit].place
        facts = self._facts[index]
        if place not in facts.made:
            facts.made[place] = self._made(index, place)
        made_bits, rise = facts.made[place]
        rise += self.potential.node(self.steps[index].node, unit)
        if region == len(shape[1]):
            rise += self.problem.launch[place]
        entries, regions, _ = shape
        reads = []
        for value, slot, to in facts.reads:
            code = entries[slot] if slot < len(entries) else 0
            key = (value, source_place(code, regions, self.places), place, code > 0 and code - 1 == region)
            if key not in facts.tables:
                facts.tables[key] = self._table(index, *key)
            reads.append((slot * self.places, facts.tables[key], to))
        return Move(rise, made_bits, tuple(reads))

    def paid_after(self, index: int, charged: int) -> int:
        """The paid destinations of values that the step leaves alone, in their new slots."""
        after = 0
        for mask, shift in self._facts[index].shifts:
            after |= (charged & mask) >> shift
        return after

    def useful_bits(self, value: int, readers: Sequence[int], source: int) -> int:
        """The destinations worth remembering: those that cost something and that a reader can have."""
        row = self.problem.values[value].transfer[source]
        bits = 0
        for reader in readers:
            for unit in self.problem.units_of[reader]:
                place = self.problem.units[unit].place
                bits |= (row[place] > 0) << place
        return bits & ~(1 << source) if source == self.problem.host else bits

    def readers_after(self, value: int, index: int) -> tuple[int, ...]:
        """Who reads `value` after step `index`, which made or read it."""
        return self._readers_after[value, index]

    def _remaining_readers(self, position: dict[int, int]) -> dict[tuple[int, int], tuple[int, ...]]:
        """For (value, step that makes or reads it): who reads the value later."""
        found = {}
        for index, value in enumerate(self.problem.values):
            readers = sorted(value.consumers, key=position.__getitem__)
            if value.producer is not None:
                found[index, position[value.producer]] = tuple(readers)
            for rank, reader in enumerate(readers):
                found[index, position[reader]] = tuple(readers[rank + 1 :])
        return found

    def _facts_of(self, step: Step) -> _StepFacts:
        """Bit moves, the signature under which shapes are remembered, and where reads go."""
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
        reads = [(value, slot, new_slot.get(slot, 0) * self.places) for value, slot in step.inputs]
        return _StepFacts([(mask, shift) for shift, mask in shifts.items()], signature, reads)

    def _made(self, index: int, place: int) -> tuple[int, float]:
        """The paid destinations of the values made at this step, in their slots, and their cost."""
        bits, cost = 0, 0.0
        step = self.steps[index]
        slot = len(step.kept)
        host = self.problem.host
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
        return bits, cost

    def _table(self, index: int, value: int, source: int, place: int, same_region: bool) -> list[Row]:
        """For each set of paid destinations: what reading `value` at `place` adds, and what is paid then."""
        host = self.problem.host
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
            rows.append((rise, paid))
        return rows
