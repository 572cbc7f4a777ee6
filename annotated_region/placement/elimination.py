"""The order in which dynamic programming visits the nodes, and what is live in between.

Any topological order gives the right answer; a narrow one gives it fast. The frontier after a step is the
set of values that are made (or, for parameters, first read) and will be read again: the vertex
separation of the order, which bounds the states of the dynamic program as path width does
(Kinnersley 1992, "The vertex separation number of a graph equals its path-width").
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from annotated_region.placement.problem import Problem

__all__ = ["Step", "frontier_sizes", "narrow_order", "steps_of"]


@dataclass(frozen=True, slots=True)
class Step:
    """What changes on the frontier when one node is visited.

    Attributes
    ----------
    node
        The node.
    arrivals
        Parameters that are first read here; they take the next slots before anything else happens.
    inputs
        ``(value, slot)`` of everything that the node reads.
    kept
        The slots that stay live afterwards; they are renumbered in this order.
    made
        The values made here that will be read; they take the slots after the kept ones.
    live
        The values that are live afterwards, by slot.
    ready
        For each way in which a later node may start, the slots (as they are afterwards) that it certainly
        depends on; only minimal ones. A region can grow again only if one of these is not blocked for it.
    later_places
        The places that some later node can still have.
    """

    node: int
    arrivals: tuple[int, ...]
    inputs: tuple[tuple[int, int], ...]
    kept: tuple[int, ...]
    made: tuple[int, ...]
    live: tuple[int, ...]
    ready: tuple[tuple[int, ...], ...]
    later_places: frozenset[int]


def narrow_order(problem: Problem) -> tuple[int, ...]:
    """The narrowest of three topological orders: as given, depth first, and greedily narrow.

    Notes
    -----
    O((nodes + edges) log nodes). Finding the best order is NP-hard; this only ranks three.
    """
    orders = (tuple(range(problem.nodes)), _depth_first(problem), _greedy(problem))
    return min(orders, key=lambda order: _burden(problem, order))


def frontier_sizes(problem: Problem, order: tuple[int, ...]) -> list[int]:
    """How many values are live after each step of `order`."""
    left = [len(value.consumers) for value in problem.values]
    begun = [False] * len(problem.values)
    size, sizes = 0, []
    for node in order:
        for value in problem.reads[node]:
            size += not begun[value]
            begun[value] = True
            left[value] -= 1
            size -= left[value] == 0
        for value in problem.makes[node]:
            begun[value] = True
            size += left[value] > 0
        sizes.append(size)
    return sizes


def steps_of(problem: Problem, order: tuple[int, ...]) -> tuple[Step, ...]:
    """The steps of `order`.

    Parameters
    ----------
    problem
        The problem.
    order
        All nodes, producers before consumers.

    Notes
    -----
    O(sum over steps of the frontier and of the nodes that are ready).
    """
    left = [len(value.consumers) for value in problem.values]
    later = _later_places(problem, order)
    ready = _Ready(problem)
    live: list[int] = []
    steps = []
    for index, node in enumerate(order):
        here = set(live)
        arrivals = tuple(value for value in problem.reads[node] if value not in here)
        extended = [*live, *arrivals]
        slot_of = {value: slot for slot, value in enumerate(extended)}
        for value in problem.reads[node]:
            left[value] -= 1
        kept = tuple(slot for slot, value in enumerate(extended) if left[value])
        made = tuple(value for value in problem.makes[node] if left[value])
        inputs = tuple((value, slot_of[value]) for value in problem.reads[node])
        live = [*(extended[slot] for slot in kept), *made]
        ready.visit(node)
        steps.append(Step(node, arrivals, inputs, kept, made, tuple(live), ready.minimal(live), later[index]))
    return tuple(steps)


class _Ready:
    """The nodes all of whose producers are visited, and what they read."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._waiting = [len(before) for before in problem.predecessors]
        self._ready: dict[int, tuple[int, ...]] = {}
        self._free = {node for node, count in enumerate(self._waiting) if count == 0}

    def visit(self, node: int) -> None:
        """Take `node` out, and take in the nodes for which it was the last missing producer."""
        self._ready.pop(node, None)
        self._free.discard(node)
        for reader in self._problem.successors[node]:
            self._waiting[reader] -= 1
            if self._waiting[reader] == 0:
                values = self._problem.values
                made = (value for value in self._problem.reads[reader] if values[value].producer is not None)
                self._ready[reader] = tuple(made)

    def minimal(self, live: list[int]) -> tuple[tuple[int, ...], ...]:
        """The minimal sets of slots that ready nodes depend on."""
        if self._free:
            return ((),)
        slot_of = {value: slot for slot, value in enumerate(live)}
        sets = {frozenset(slot_of[value] for value in reads): None for reads in self._ready.values()}
        found: list[frozenset[int]] = []
        for slots in sorted(sets, key=lambda slots: (len(slots), sorted(slots))):
            if not any(smaller <= slots for smaller in found):
                found.append(slots)
        return tuple(tuple(sorted(slots)) for slots in found)


def _later_places(problem: Problem, order: tuple[int, ...]) -> list[frozenset[int]]:
    """For each step, the places that the nodes after it can have."""
    found: list[frozenset[int]] = []
    places: frozenset[int] = frozenset()
    for node in reversed(order):
        found.append(places)
        places |= {problem.units[unit].place for unit in problem.units_of[node]}
    return found[::-1]


def _burden(problem: Problem, order: tuple[int, ...]) -> float:
    """A stand-in for the states of the dynamic program: exponential in the frontier."""
    return math.fsum(3.0 ** min(size, 300) for size in frontier_sizes(problem, order))


def _depth_first(problem: Problem) -> tuple[int, ...]:
    """Producers on demand: each sink pulls what it needs, first input first."""
    order: list[int] = []
    placed = [False] * problem.nodes
    for sink in range(problem.nodes):
        stack = [] if problem.successors[sink] else [sink]
        while stack:
            node = stack[-1]
            missing = [other for other in problem.predecessors[node] if not placed[other]]
            if missing:
                stack.append(missing[0])
                continue
            stack.pop()
            if not placed[node]:
                placed[node] = True
                order.append(node)
    return tuple(order)


def _greedy(problem: Problem) -> tuple[int, ...]:
    """Among the ready nodes, the one that leaves the fewest values live; the newest of equals."""
    left = [len(value.consumers) for value in problem.values]
    begun = [value.producer is not None for value in problem.values]
    waiting = [len(before) for before in problem.predecessors]
    growth = [0] * problem.nodes
    order: list[int] = []
    heap: list[tuple[int, int, int]] = []

    def offer(node: int) -> None:
        reads = problem.reads[node]
        grow = sum(left[value] > 0 for value in problem.makes[node])
        grow += sum(not begun[value] for value in reads) - sum(left[value] == 1 for value in reads)
        growth[node] = grow
        heapq.heappush(heap, (grow, -len(order), node))

    for node in range(problem.nodes):
        if waiting[node] == 0:
            offer(node)
    placed = [False] * problem.nodes
    while heap:
        grow, _, node = heapq.heappop(heap)
        if placed[node] or grow != growth[node]:
            continue
        placed[node] = True
        order.append(node)
        changed: dict[int, None] = {}
        for value in problem.reads[node]:
            begun[value] = True
            left[value] -= 1
            if left[value] == 1:
                changed |= dict.fromkeys(problem.values[value].consumers)
        for reader in problem.successors[node]:
            waiting[reader] -= 1
            changed[reader] = None
        for other in changed:
            if waiting[other] == 0 and not placed[other]:
                offer(other)
    return tuple(order)
