"""Moves single units of a placement to other places, within the memory budgets.

A pass moves one unit after the other, the one that gains most first even if it makes the placement dearer,
and no unit twice; the best states on the way are kept (Fiduccia and Mattheyses 1982, "A linear-time
heuristic for improving network partitions", with budgets of memory instead of a balance). If a budget is
full, no single move helps: something has to leave the target before more valuable units can enter. So each
pass begins with one unit that has to leave its place.

    budget full:  N N N N N | D D D D D      the second unit leaves, and two units at the border
                  N D N N N | N N D D D      enter in its stead

Passes count compute and transfers between places. Launches are counted when the best states are grouped into
waves and offered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from annotated_region.ids import Place, UnitId
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.problem import Placement, PlacementProblem
from annotated_region.placement.uses import Uses
from annotated_region.placement.waves import wave_placement

__all__ = ["refine"]

ROUNDS = 4
"""How often a placement that became cheaper is refined again, at most."""

MOVES = 64
"""The moves of a pass, at most."""

SCANS = 1_000_000
"""The approximate number of units that all passes of a round compare, which bounds the number of passes."""

STATES = 2
"""The states of each pass that are offered, at most."""

Groups = tuple[UnitId, ...]


def refine(best: Incumbent, uses: Uses, offer: Callable[[Placement], None]) -> None:
    """Refine the best placement if a budget limits its memory, while that makes it cheaper.

    Parameters
    ----------
    best
        The incumbent.
    uses
        The resource use of units.
    offer
        Offers a placement to the incumbent if it respects the limits.

    Notes
    -----
    O(passes x moves x (units + edges)), at most about `SCANS`, plus the grouping of the states offered.
    """
    if all(limits.budget_bytes is None for limits in best.problem.limits):
        return
    for _ in range(ROUNDS):
        before, known = best.cost, best.placement
        if known is None:
            return
        blocks = _MovableBlocks(best.problem, uses, known)
        seen: dict[Groups, None] = {}
        for first in blocks.leaving()[: max(1, SCANS // (MOVES * len(known.units)))]:
            seen |= dict.fromkeys(_Pass(blocks, before).run(first))
        for units in seen:
            found = wave_placement(best.problem, units)
            if found is not None:
                offer(found)
        if best.cost >= before:
            return


class _MovableBlocks:
    """The sets of nodes that move together, those of the units of a placement.

    Attributes
    ----------
    start
        For each block, its place.
    budgets
        For each place, its budget; infinite without one.
    covers
        For each block and each place that can run it, the units that do.
    costs, memory
        For each block and each such place, the compute of these units, and their memory.
    values
        For each value, the block that defines it, if any, and those that read it.
    values_of, neighbours
        For each block, its values, and the blocks that share one with it.
    """

    def __init__(self, problem: PlacementProblem, uses: Uses, placement: Placement) -> None:
        self._problem = problem
        nodes = [problem.units[unit].nodes for unit in placement.units]
        self.start = [problem.units[unit].place for unit in placement.units]
        budgets = [limits.budget_bytes for limits in problem.limits]
        self.budgets = [math.inf if budget is None else budget for budget in budgets] + [math.inf]
        covers = [
            {place: _cover(problem, block, place) for place in map(Place, range(problem.host + 1))}
            for block in nodes
        ]
        self.covers = [{place: units for place, units in each.items() if units} for each in covers]
        self.costs = [
            {place: math.fsum([problem.units[unit].cost for unit in units]) for place, units in each.items()}
            for each in self.covers
        ]
        self.memory = [
            {place: sum([uses.memory([unit]) for unit in units]) for place, units in each.items()}
            for each in self.covers
        ]
        block_of = {node: index for index, block in enumerate(nodes) for node in block}
        self.values: list[tuple[int | None, tuple[int, ...]]] = []
        self.values_of: list[list[int]] = [[] for _ in nodes]
        for index, value in enumerate(problem.values):
            made = None if value.producer is None else block_of[value.producer]
            readers = dict.fromkeys(block_of[node] for node in value.consumers)
            readers.pop(made if made is not None else -1, None)
            self.values.append((made, tuple(readers)))
            for block in readers if made is None else [made, *readers]:
                self.values_of[block].append(index)
        self.neighbours = [self._sharing(block) for block in range(len(nodes))]

    def _sharing(self, block: int) -> list[int]:
        rows = [self.values[value] for value in self.values_of[block]]
        found = dict.fromkeys(other for made, readers in rows for other in (made, *readers))
        return [other for other in found if other is not None and other != block]

    def leaving(self) -> list[int]:
        """The blocks at places with budgets, those that need most memory first."""
        held = [
            (-self.memory[block][place], block)
            for block, place in enumerate(self.start)
            if self.budgets[place] < math.inf and len(self.covers[block]) > 1
        ]
        return [block for _memory, block in sorted(held)]

    def transfers(self, value: int, places: Sequence[Place]) -> float:
        """The transfers of a value between places."""
        described, host = self._problem.values[value], self._problem.host
        made, readers = self.values[value]
        source = host if made is None else places[made]
        destinations = {places[block] for block in readers}
        if described.host_reads:
            destinations.add(host)
        destinations.discard(source)
        row = described.transfer[source]
        return math.fsum([row[place] for place in destinations])

    def cost(self, places: Sequence[Place]) -> float:
        """Compute and transfers between places."""
        compute = [costs[place] for costs, place in zip(self.costs, places, strict=True)]
        return math.fsum([*compute, *(self.transfers(value, places) for value in range(len(self.values)))])

    def units(self, places: Sequence[Place]) -> Groups:
        """The units, ascending."""
        rows = zip(self.covers, places, strict=True)
        return tuple(sorted([unit for covers, place in rows for unit in covers[place]]))


class _Pass:
    """One pass over the blocks.

    Attributes
    ----------
    places
        For each block, its current place.
    held
        For each place, the memory of its blocks.
    free
        The blocks not moved yet.
    gains
        For each free block and each other place, how much cheaper its move there is.
    """

    def __init__(self, blocks: _MovableBlocks, upper: float) -> None:
        self._blocks = blocks
        self._upper = upper
        self.places = list(blocks.start)
        self.held = [0] * len(blocks.budgets)
        for block, place in enumerate(self.places):
            self.held[place] += blocks.memory[block][place]
        self.free = dict.fromkeys(range(len(self.places)))
        self.gains: dict[int, dict[Place, float]] = {}
        for block in self.free:
            self.gains[block] = self._gains(block)

    def run(self, first: int) -> list[Groups]:
        """Move a block away, then others; returns the units of the cheapest states."""
        cost = self._blocks.cost(self.places)
        states: list[tuple[float, int, list[Place]]] = []
        move = self._best([first])
        while move is not None and len(states) < MOVES:
            block, place = move
            cost -= self.gains[block][place]
            self._move(block, place)
            if cost < self._upper:
                states.append((cost, len(states), list(self.places)))
            move = self._best(self.free)
        return [self._blocks.units(places) for _cost, _turn, places in sorted(states)[:STATES]]

    def _best(self, blocks: Sequence[int] | dict[int, None]) -> tuple[int, Place] | None:
        """The move that gains most, among those that keep the budgets."""
        most, found = -math.inf, None
        for block in blocks:
            for place, gain in self.gains[block].items():
                if gain > most and (
                    self.held[place] + self._blocks.memory[block][place] <= self._blocks.budgets[place]
                ):
                    most, found = gain, (block, place)
        return found

    def _move(self, block: int, place: Place) -> None:
        memory = self._blocks.memory[block]
        self.held[self.places[block]] -= memory[self.places[block]]
        self.held[place] += memory[place]
        self.places[block] = place
        del self.free[block], self.gains[block]
        for other in self._blocks.neighbours[block]:
            if other in self.free:
                self.gains[other] = self._gains(other)

    def _gains(self, block: int) -> dict[Place, float]:
        blocks, own = self._blocks, self.places[block]
        costs = {}
        for place, compute in blocks.costs[block].items():
            self.places[block] = place
            moved = [blocks.transfers(value, self.places) for value in blocks.values_of[block]]
            costs[place] = math.fsum([compute, *moved])
        self.places[block] = own
        return {place: costs[own] - cost for place, cost in costs.items() if place != own}


def _cover(problem: PlacementProblem, nodes: Sequence[int], place: Place) -> Groups:
    """Units of a place that cover some nodes, the largest first; none if there are none."""
    wanted = set(nodes)
    offered = dict.fromkeys(unit for node in nodes for unit in problem.units_of[node])
    usable = [unit for unit in offered if problem.units[unit].place == place]
    usable.sort(key=lambda unit: (-len(problem.units[unit].nodes), problem.units[unit].cost, unit))
    chosen = []
    for unit in usable:
        if wanted.issuperset(problem.units[unit].nodes):
            wanted.difference_update(problem.units[unit].nodes)
            chosen.append(unit)
    return () if wanted else tuple(chosen)
