"""The visiting order of the dynamic program, and the live values after each step.

Every topological order is correct; a narrow one is fast. The frontier after a step is the set of values that
have been defined (or, for parameters, first read) and have later readers. Its maximum size is the vertex
separation of the order, which bounds the states of the dynamic program like path width (Kinnersley 1992, "The
vertex separation number of a graph equals its path-width").
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import combinations

from annotated_region.ids import ValueId
from annotated_region.placement.problem import PlacementProblem

__all__ = ["Step", "frontier_sizes", "narrow_order", "steps_of"]

_FEW = 8


@dataclass(frozen=True, slots=True)
class Step:
    """The change of the frontier at the visit of one node.

    Attributes
    ----------
    node
        The node.
    arrivals
        Parameters that are first read here; they get the next slots first.
    inputs
        ``(value, slot)`` of each operand of the node.
    kept
        The slots that stay live afterwards; they are renumbered in this order.
    made
        The values defined here that have readers; they get the slots after the kept ones.
    live
        The live values after the step, by slot.
    ready
        For the unvisited nodes that read live values and whose other producers do not depend on visited
        nodes, the sets of slots (after the step) that they read; only minimal sets.
    later_places
        The places of all later nodes, as a bit set.
    source_places
        The places of later nodes without producers.
    detached_places
        The places of later nodes with producers, if all their transitive producers are later as well.
    """

    node: int
    arrivals: tuple[ValueId, ...]
    inputs: tuple[tuple[ValueId, int], ...]
    kept: tuple[int, ...]
    made: tuple[ValueId, ...]
    live: tuple[ValueId, ...]
    ready: tuple[tuple[int, ...], ...]
    later_places: int
    source_places: int
    detached_places: int


def narrow_order(problem: PlacementProblem) -> tuple[int, ...]:
    """The narrowest of three topological orders: the given one, depth first, and greedy.

    Notes
    -----
    O((nodes + edges) log nodes). Finding the best order is NP-hard; this only compares three.
    """
    orders = (tuple(range(problem.nodes)), _depth_first(problem), _greedy(problem))
    return min(orders, key=lambda order: _burden(problem, order))


def frontier_sizes(problem: PlacementProblem, order: tuple[int, ...]) -> list[int]:
    """The number of live values after each step of `order`."""
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


def steps_of(problem: PlacementProblem, order: tuple[int, ...]) -> tuple[Step, ...]:
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
    first = _first_visits(problem, order)
    places = _LaterPlaces(problem, order, first)
    ready = _ReadyNodes(problem, order, first)
    live: list[ValueId] = []
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
        ready.visit(index)
        starts = ready.minimal(live)
        steps.append(Step(node, arrivals, inputs, kept, made, tuple(live), starts, *places.after(index)))
    return tuple(steps)


def _first_visits(problem: PlacementProblem, order: tuple[int, ...]) -> list[int]:
    """For each node, the earliest step of itself and its transitive producers."""
    first = [0] * problem.nodes
    for index, node in enumerate(order):
        first[node] = min([index, *(first[other] for other in problem.predecessors[node])])
    return first


class _ReadyNodes:
    """The nodes that read visited nodes, and no unvisited node that depends on a visited one."""

    def __init__(self, problem: PlacementProblem, order: tuple[int, ...], first: list[int]) -> None:
        self._problem = problem
        self._order = order
        self._visited = [False] * problem.nodes
        self._between = [0] * problem.nodes  # unvisited producers that depend on visited nodes
        # For each node that reads a visited node, the defined values among its operands.
        self._candidates: dict[int, frozenset[ValueId]] = {}
        self._touched: list[list[int]] = [[] for _ in order]
        for node in order:
            self._touched[first[node]].append(node)

    def visit(self, index: int) -> None:
        """Visit the node of step `index`."""
        for node in self._touched[index]:
            for reader in self._problem.successors[node]:
                self._between[reader] += 1
        node = self._order[index]
        self._visited[node] = True
        self._candidates.pop(node, None)
        for reader in self._problem.successors[node]:
            self._between[reader] -= 1
            self._candidates[reader] = frozenset(filter(self._is_made, self._problem.reads[reader]))

    def minimal(self, live: list[ValueId]) -> tuple[tuple[int, ...], ...]:
        """The minimal sets of slots that the ready nodes read."""
        slot_of = {value: slot for slot, value in enumerate(live)}
        sets = {values for node, values in self._candidates.items() if self._between[node] == 0}
        minimal = [
            sorted(map(slot_of.__getitem__, values)) for values in sets if not _has_part_in(values, sets)
        ]
        return tuple(map(tuple, sorted(minimal, key=lambda slots: (len(slots), slots))))

    def _is_made(self, value: ValueId) -> bool:
        """Whether a visited node defines the value."""
        producer = self._problem.values[value].producer
        return producer is not None and self._visited[producer]


def _has_part_in(values: frozenset[ValueId], sets: set[frozenset[ValueId]]) -> bool:
    """Whether `sets` has a proper subset of `values`."""
    if len(values) == 1:
        return frozenset() in sets
    if len(values) > _FEW:
        return any(smaller < values for smaller in sets)
    return any(frozenset(part) in sets for size in range(len(values)) for part in combinations(values, size))


class _LaterPlaces:
    """The possible places of the nodes after each step, by their dependence on visited nodes.

    Targets with one unit per region are excluded, because no later node joins their regions. If regions are
    limited, they are not interchangeable for nodes without producers either, so those count as detached.
    """

    def __init__(self, problem: PlacementProblem, order: tuple[int, ...], first: list[int]) -> None:
        everything, sources, detached = ([0] * (len(order) + 1) for _ in range(3))
        is_limited = problem.is_limited
        for index, node in enumerate(order):
            places = 0
            for unit in problem.units_of[node]:
                place = problem.units[unit].place
                places |= (place not in problem.single) << place
            everything[index] |= places
            if problem.predecessors[node]:
                detached[first[node]] |= places
            elif is_limited:
                detached[index] |= places
            else:
                sources[index] |= places
        self._columns = [_suffix_unions(column) for column in (everything, sources, detached)]

    def after(self, index: int) -> tuple[int, int, int]:
        """All later places, those of sources, and those of nodes that depend only on later sources."""
        everything, sources, detached = (column[index + 1] for column in self._columns)
        return everything, sources, detached


def _suffix_unions(column: list[int]) -> list[int]:
    """For each index, the union of the bit sets from that index to the end."""
    unions = list(column)
    for index in range(len(unions) - 2, -1, -1):
        unions[index] |= unions[index + 1]
    return unions


def _burden(problem: PlacementProblem, order: tuple[int, ...]) -> float:
    """An estimate of the number of states of the dynamic program: exponential in the frontier."""
    return math.fsum(3.0 ** min(size, 300) for size in frontier_sizes(problem, order))


def _depth_first(problem: PlacementProblem) -> tuple[int, ...]:
    """Depth-first order from the sinks, the longest chain first (Sethi and Ullman 1970)."""
    depth = [0] * problem.nodes
    for node, before in enumerate(problem.predecessors):
        depth[node] = 1 + max((depth[other] for other in before), default=0)
    order: list[int] = []
    placed = [False] * problem.nodes
    for sink in range(problem.nodes):
        stack = [] if problem.successors[sink] else [sink]
        while stack:
            node = stack[-1]
            missing = [other for other in problem.predecessors[node] if not placed[other]]
            if missing:
                stack.append(max(missing, key=depth.__getitem__))
                continue
            stack.pop()
            if not placed[node]:
                placed[node] = True
                order.append(node)
    return tuple(order)


def _greedy(problem: PlacementProblem) -> tuple[int, ...]:
    """Repeatedly the ready node that leaves the fewest values live; the newest on ties."""
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
