"""Refinement: splits a few neighbouring groups at a time and merges their vertices in another way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from annotated_region.graphs import Dag, DynamicQuotient, contract
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["refine"]

_TOGETHER = 4
"""The number of groups that one trial splits."""

_WINDOW = 400
"""Groups further apart than this in the topological order are not tried together."""

_VERTICES = 1200
"""Groups with more vertices than this between the first and the last are not tried together."""

_SWEEPS = 4
"""The largest number of passes over all groups."""

_EFFORT = 60
_EFFORT_AT_MOST = 100_000
"""The work of one call is a fixed multiple of the size of the graph, with a cap: large graphs get less."""


def refine(problem: GroupingProblem, partition: Partition) -> Partition:
    """Split groups and merge their vertices differently where that saves groups.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        A valid grouping.

    Returns
    -------
    list
        A valid grouping with as many groups or fewer.

    Notes
    -----
    Each group in turn is split together with up to three neighbours of its colour, and the vertices are
    merged along their edges in random order (with a fixed seed). The result replaces the old groups if it has
    no more groups; accepting a different partition of equal size lets later trials improve on it. This is
    large neighbourhood search (Shaw, "Using constraint programming and local search methods to solve vehicle
    routing problems", 1998).

    Only blocks between the chosen groups in the topological order can lie on a path between them, so a trial
    looks at this window only. The blocks that are both reached from and reach the groups form a small graph
    together with the split vertices. The other blocks of the window go behind the result if they are reached
    from the groups, else in front of it, so the order of all blocks stays topological. Windows are bounded,
    so a sweep is O(n + m) up to the constant of the window.
    """
    arrangement = _Arrangement(problem, partition)
    size = len(problem.dag) + sum(map(len, problem.dag.successors))
    budget = min(_EFFORT * size, _EFFORT_AT_MOST)
    for _ in range(_SWEEPS):
        if not arrangement.sweep(budget) or arrangement.work > budget:
            break
    return arrangement.partition()


class _Arrangement:
    """All blocks in a topological order that can be changed window by window."""

    def __init__(self, problem: GroupingProblem, partition: Partition) -> None:
        quotient, blocks, _ = contract(problem.dag, partition)
        self.problem = problem
        self.dag = problem.dag
        self.work = 0
        self._random = Random(0)
        self._rank = {vertex: rank for rank, vertex in enumerate(problem.topological)}
        self._blocks: list[list[int]] = [list(blocks[block]) for block in quotient.topological()]
        self._place = [0] * len(problem.dag)
        for place, block in enumerate(self._blocks):
            for vertex in block:
                self._place[vertex] = place

    def partition(self) -> Partition:
        """The coloured blocks in order, each in topological order."""
        coloured = [block for block in self._blocks if block and self._colour(block) is not None]
        return [sorted(block, key=self._rank.__getitem__) for block in coloured]

    def sweep(self, budget: int) -> int:
        """Try each group once with some of its neighbours; returns the number of groups saved."""
        gain = 0
        for vertex in [block[0] for block in self._blocks if block]:
            if self.problem.colours[vertex] is None:
                continue
            places = self._together(self._place[vertex])
            if self.work > budget:
                break
            if len(places) > 1 and self._small(places):
                gain += self._retry(places)
        return gain

    def _small(self, places: list[int]) -> bool:
        """Whether the window from the first to the last place is within the limits."""
        if places[-1] - places[0] > _WINDOW:
            return False
        self.work += places[-1] - places[0]
        return sum(map(len, self._blocks[places[0] : places[-1] + 1])) <= _VERTICES

    def _colour(self, block: Sequence[int]) -> int | None:
        """The colour of a block."""
        return self.problem.colours[block[0]]

    def _together(self, place: int) -> list[int]:
        """The places of a group and some of its neighbours, ascending."""
        block = self._blocks[place]
        colour = self._colour(block)
        near: dict[int, None] = {}
        for vertex in block:
            for other in (*self.dag.successors[vertex], *self.dag.predecessors[vertex]):
                if self.problem.colours[other] == colour and self._place[other] != place:
                    near[self._place[other]] = None
        if not self.problem.limits_of(block[0]).connected:
            near.update(dict.fromkeys(self._behind(place, colour)))
        self.work += len(block) + len(near)
        chosen = list(near)
        self._random.shuffle(chosen)
        return sorted([place, *chosen[: _TOGETHER - 1]])

    def _behind(self, place: int, colour: int | None) -> list[int]:
        """The next few groups of a colour in the order, within a quarter of a window."""
        window = range(place + 1, min(place + 1 + _WINDOW // 4, len(self._blocks)))
        self.work += len(window)
        found = (
            other for other in window if self._blocks[other] and self._colour(self._blocks[other]) == colour
        )
        return [other for other, _ in zip(found, range(_TOGETHER - 1), strict=False)]

    def _retry(self, places: list[int]) -> int:
        """Split the groups at `places` and merge their vertices again; returns the number of groups saved."""
        reached = self._marked(places, self.dag.predecessors)
        between = reached & self._marked(places, self.dag.successors)
        inner = sorted(between.difference(places))
        units = [[vertex] for place in places for vertex in self._blocks[place]]
        blocks = units + [self._blocks[place] for place in inner]
        groups = self._joined(blocks, len(units))
        saved = len(places) + len(inner) - len(groups)
        if saved >= 0 and all(self._allowed(group) for group in groups):
            self._replace(places, reached, between, groups)
            return saved
        return 0

    def _marked(self, places: list[int], edges: Sequence[Sequence[int]]) -> set[int]:
        """The places in the window that a path connects with `places`; `edges` lead towards them."""
        marked = set(places)
        window = range(places[0], places[-1] + 1)
        for place in window if edges is self.dag.predecessors else reversed(window):
            block = self._blocks[place]
            if place not in marked and any(self._place[near] in marked for v in block for near in edges[v]):
                marked.add(place)
        self.work += len(window)
        return marked

    def _joined(self, blocks: list[list[int]], units: int) -> list[list[int]]:
        """The blocks of a small graph after merging the first `units` of them, in topological order."""
        local = {vertex: index for index, block in enumerate(blocks) for vertex in block}
        successors: list[list[int]] = [[] for _ in blocks]
        for vertex, index in local.items():
            targets = (local.get(target, index) for target in self.dag.successors[vertex])
            successors[index].extend(target for target in targets if target != index)
        quotient = DynamicQuotient(Dag(successors))
        pairs = list(self._pairs(successors, units, blocks[0][0]))
        self._random.shuffle(pairs)
        for left, right in pairs:
            self._merge(quotient, blocks, left, right)
        self.work += len(local) + len(pairs)
        return [[vertex for index in group for vertex in blocks[index]] for group in quotient.groups()]

    def _pairs(self, successors: list[list[int]], units: int, sample: int) -> Iterable[tuple[int, int]]:
        """The pairs of units to merge: the ends of edges, and nearby ones if groups need not be connected."""
        for left in range(units):
            yield from ((left, right) for right in successors[left] if right < units)
            if not self.problem.limits_of(sample).connected:
                yield from ((left, right) for right in range(left + 1, min(units, left + _TOGETHER)))

    def _merge(self, quotient: DynamicQuotient, blocks: list[list[int]], left: int, right: int) -> None:
        """Merge two blocks of the small graph if the limits and acyclicity allow it."""
        if quotient.same(left, right):
            return
        if self.problem.limits_of(blocks[left][0]).bounded:
            both = [*quotient.members(left), *quotient.members(right)]
            if not self.problem.accepts([vertex for index in both for vertex in blocks[index]]):
                return
        quotient.try_merge(left, right, _WINDOW * _WINDOW)

    def _allowed(self, group: list[int]) -> bool:
        """Whether a possibly new group is accepted."""
        return self._colour(group) is None or len(group) == 1 or self.problem.accepts(group)

    def _replace(self, places: list[int], reached: set[int], between: set[int], groups: Partition) -> None:
        """Rewrite the window: blocks that the groups do not reach, the new blocks, then the blocks they
        reach.
        """
        window = range(places[0], places[-1] + 1)
        before = [self._blocks[place] for place in window if place not in reached]
        behind = [self._blocks[place] for place in window if place in reached and place not in between]
        order = [block for block in (*before, *groups, *behind) if block]
        order.extend([] for _ in range(len(window) - len(order)))
        for place, block in zip(window, order, strict=True):
            self._blocks[place] = block
            for vertex in block:
                self._place[vertex] = place
