"""Dynamic programming over the frontier: exact when the frontier is small, a beam when it is not.

The nodes are visited in a topological order. After each step all that matters of the past is its shape
(`annotated_region.placement.shapes`) and, for each live value, which destinations have been paid; of all
pasts that agree on this, the cheapest is kept. That is the classical dynamic program over a path
decomposition (Bodlaender 1988; Held and Karp 1962 for the idea), with the ancestors of open regions in
the state so that every answer is acyclic. Labels that cannot beat a known placement are dropped
(Morin and Marsten 1976, branch and bound inside dynamic programming); when a layer is wider than allowed
only the most promising labels survive, and the bound of the dropped ones is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from annotated_region.placement.elimination import Step
from annotated_region.placement.potential import Potential
from annotated_region.placement.problem import Placement, Problem
from annotated_region.placement.shapes import EMPTY, HOST, Shape, advance, open_region, source_place

__all__ = ["FrontierResult", "FrontierSearch"]

Label = tuple[float, "Label | None", int, int]
"""Bound of the whole, the label before, the unit that covers the step's node, the region it joins."""

Layer = dict[Shape, dict[int, Label]]
"""For each shape, the best label for each set of paid destinations (places bits for each slot)."""


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """What one run of the dynamic program found.

    Attributes
    ----------
    placement
        The best placement found, None if nothing beats the upper limit.
    bound
        No placement is cheaper than this, provided that none below the upper limit was known.
    labels
        How many labels were made: the work done.
    exact
        Whether nothing was dropped for lack of room.
    widest
        The labels of the widest layer.
    """

    placement: Placement | None
    bound: float
    labels: int
    exact: bool
    widest: int


class FrontierSearch:
    """The dynamic program for one problem, one order and one potential; run it with any width.

    Parameters
    ----------
    problem
        The problem.
    steps
        The order, as `annotated_region.placement.elimination.steps_of` prepares it.
    potential
        The bound on what follows.

    Notes
    -----
    O(steps x labels of a layer x (open regions + targets) x frontier). Without a limit, labels grow
    exponentially with the frontier, and with nothing else.
    """

    def __init__(self, problem: Problem, steps: Sequence[Step], potential: Potential) -> None:
        self._problem = problem
        self._steps = steps
        self._potential = potential
        self._places = problem.host + 1
        self._mask = (1 << self._places) - 1
        position = {step.node: index for index, step in enumerate(steps)}
        self._first: list[list[int]] = [[] for _ in steps]
        self._last: dict[int, int] = {}
        for index, unit in enumerate(problem.units):
            if math.isfinite(unit.cost):
                visits = [position[node] for node in unit.nodes]
                self._first[min(visits)].append(index)
                self._last[index] = max(visits)
        self._readers_after = self._remaining_readers(position)
        self._useful: dict[tuple[int, int, int], int] = {}

    def _remaining_readers(self, position: dict[int, int]) -> dict[tuple[int, int], tuple[int, ...]]:
        """For (value, step), the readers of the value that come after the step."""
        found = {}
        for index, value in enumerate(self._problem.values):
            readers = sorted(value.consumers, key=position.__getitem__)
            if value.producer is not None:
                found[index, position[value.producer]] = tuple(readers)
            for rank, reader in enumerate(readers):
                found[index, position[reader]] = tuple(readers[rank + 1 :])
        return found

    def run(self, upper: float = math.inf, width: int | None = None) -> FrontierResult:
        """Search for a placement cheaper than `upper`.

        Parameters
        ----------
        upper
            Labels whose bound reaches this are dropped.
        width
            The most labels to keep after a step; None keeps all.
        """
        layer: Layer = {EMPTY: {0: (self._potential.base, None, -1, HOST)}}
        dropped, labels, widest = math.inf, 0, 1
        for index in range(len(self._steps)):
            layer, made = self._next_layer(index, layer, upper)
            labels += made
            size = sum(map(len, layer.values()))
            widest = max(widest, size)
            if width is not None and size > width:
                layer, cut = _narrowed(layer, width)
                dropped = min(dropped, cut)
        finals = [label for variants in layer.values() for label in variants.values()]
        best = min(finals, key=lambda label: label[0], default=None)
        bound = min(dropped, upper if best is None else best[0])
        placement = None if best is None else self._replay(best)
        return FrontierResult(placement, bound, labels, dropped == math.inf, widest)

    def _next_layer(self, index: int, layer: Layer, upper: float) -> tuple[Layer, int]:
        """All labels after step `index` that may still beat `upper`, and how many were made."""
        step = self._steps[index]
        following: Layer = {}
        made = 0
        tables: dict[tuple[int, int, int, bool], list[tuple[float, int]]] = {}
        for shape, variants in layer.items():
            for unit, region in self._choices(index, shape):
                moved = self._advance(index, shape, unit, region)
                if moved is None:
                    continue
                made += len(variants)
                target = following.setdefault(moved[0], {})
                self._relabel(index, step, shape, unit, region, variants, target, upper, tables)
                if not target:
                    del following[moved[0]]
        return following, made

    def _choices(self, index: int, shape: Shape) -> list[tuple[int, int]]:
        """The pairs (unit, region) that may cover the node of step `index`."""
        node = self._steps[index].node
        units = self._problem.units
        for unit, region in shape[2]:
            if node in units[unit].nodes:
                return [(unit, region)]
        choices = []
        for unit in self._first[index]:
            if any(not set(units[unit].nodes).isdisjoint(units[other].nodes) for other, _ in shape[2]):
                continue
            place = units[unit].place
            if place == self._problem.host:
                choices.append((unit, HOST))
            else:
                joined = [*open_region(shape, place, self._places), len(shape[1])]
                choices.extend((unit, region) for region in joined)
        return choices

    def _advance(
        self, index: int, shape: Shape, unit: int, region: int
    ) -> tuple[Shape, tuple[int, ...]] | None:
        """The shape after this choice, and where its regions come from; None for a cycle."""
        pending = shape[2]
        if self._last[unit] == index:
            pending = tuple(entry for entry in pending if entry[0] != unit)
        elif all(other != unit for other, _ in pending):
            pending = (*pending, (unit, region))
        place = self._problem.units[unit].place
        return advance(self._steps[index], shape, region, place, pending, self._places)

    def _relabel(
        self,
        index: int,
        step: Step,
        shape: Shape,
        unit: int,
        region: int,
        variants: dict[int, Label],
        target: dict[int, Label],
        upper: float,
        tables: dict[tuple[int, int, int, bool], list[tuple[float, int]]],
    ) -> None:
        """Carry the labels of one shape over one choice into `target`."""
        places, mask = self._places, self._mask
        place = self._problem.units[unit].place
        fixed = self._potential.node(step.node, unit)
        if region == len(shape[1]):
            fixed += self._problem.launch[place]
        made_bits, made_cost = self._made(index, step, place)
        fixed += made_cost
        reads = []
        old_live = len(shape[0])
        new_slot = {slot: rank for rank, slot in enumerate(step.kept)}
        for value, slot in step.inputs:
            code = shape[0][slot] if slot < old_live else 0
            source = source_place(code, shape[1], places)
            key = (value, source, place, code > 0 and code - 1 == region)
            table = tables.get(key)
            if table is None:
                table = tables[key] = self._table(index, *key)
            reads.append((slot * places, table, new_slot.get(slot, 0) * places))
        touched = {slot for _, slot in step.inputs}
        moves = [(slot * places, rank * places) for slot, rank in new_slot.items() if slot not in touched]
        for charged, label in variants.items():
            bound = label[0] + fixed
            after = made_bits
            for shift, table, to in reads:
                rise, bits = table[charged >> shift & mask]
                bound += rise
                after |= bits << to
            if bound >= upper:
                continue
            for shift, to in moves:
                after |= (charged >> shift & mask) << to
            known = target.get(after)
            if known is None or bound < known[0]:
                target[after] = (bound, label, unit, region)

    def _made(self, index: int, step: Step, place: int) -> tuple[int, float]:
        """The paid destinations of the values made at this step, in their slots, and their cost."""
        bits, cost = 0, 0.0
        slot = len(step.kept)
        for value in self._problem.makes[step.node]:
            charged = 0
            described = self._problem.values[value]
            if described.host_reads and place != self._problem.host:
                cost += described.transfer[place][self._problem.host]
                charged = 1 << self._problem.host
            readers = self._readers_after[value, index]
            charged &= self._useful_bits(value, readers, place)
            cost += self._potential.made(value, place)
            cost += self._potential.rest(value, readers, place, charged)
            if readers:
                bits |= charged << slot * self._places
                slot += 1
        return bits, cost

    def _table(
        self, index: int, value: int, source: int, place: int, same_region: bool
    ) -> list[tuple[float, int]]:
        """For each set of paid destinations: what reading `value` at `place` adds, and what is paid then."""
        host = self._problem.host
        after = self._readers_after[value, index]
        before = (self._steps[index].node, *after)
        useful = self._useful_bits(value, after, source)
        free = same_region or (source == host and place == host)
        price = 0.0 if free else self._problem.values[value].transfer[source][place]
        rows = []
        for charged in range(1 << self._places):
            paid = charged if free else charged | 1 << place
            rise = price if paid != charged else 0.0
            rise -= self._potential.rest(value, before, source, charged)
            paid &= useful
            rise += self._potential.rest(value, after, source, paid)
            rows.append((rise, paid))
        return rows

    def _useful_bits(self, value: int, readers: tuple[int, ...], source: int) -> int:
        """The destinations worth remembering: those that cost something and that a reader can have."""
        if not readers:
            return 0
        key = (value, len(readers), source)
        if key not in self._useful:
            row = self._problem.values[value].transfer[source]
            units = self._problem.units
            bits = 0
            for reader in readers:
                for unit in self._problem.units_of[reader]:
                    bits |= (row[units[unit].place] > 0) << units[unit].place
            self._useful[key] = bits & ~(1 << source) if source == self._problem.host else bits
        return self._useful[key]

    def _replay(self, label: Label) -> Placement:
        """Walk the labels back and give each region of each step its identity."""
        choices: list[tuple[int, int]] = []
        cursor: Label | None = label
        while cursor is not None and cursor[1] is not None:
            choices.append((cursor[2], cursor[3]))
            cursor = cursor[1]
        shape: Shape = EMPTY
        known: list[int] = []
        groups: list[dict[int, None]] = []
        for index, (unit, region) in enumerate(reversed(choices)):
            if region == len(known) or region == HOST:
                groups.append({})
            identities = [*known, len(groups) - 1]
            groups[identities[region]][unit] = None
            moved = self._advance(index, shape, unit, region)
            if moved is None:
                raise AssertionError("a label was made by a step that closes a cycle")
            shape, origin = moved
            known = [identities[old] for old in origin]
        return Placement.of(self._problem, [list(group) for group in groups])


def _narrowed(layer: Layer, width: int) -> tuple[Layer, float]:
    """The `width` most promising labels, and the least bound among the others."""
    ranked = sorted(
        (
            (label[0], shape, charged)
            for shape, variants in layer.items()
            for charged, label in variants.items()
        ),
        key=lambda item: item[0],
    )
    kept: Layer = {}
    for _, shape, charged in ranked[:width]:
        kept.setdefault(shape, {})[charged] = layer[shape][charged]
    return kept, ranked[width][0]
