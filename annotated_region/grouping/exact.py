"""The optimal grouping of small scopes, by a budgeted search over the orders in which groups can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from annotated_region.grouping.bounds import levels
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["improve"]

_MOST_VERTICES = 64
_MOST_COLOURED = 16
"""With more coloured vertices there are too many candidate subsets to enumerate."""

_MOST_MOVES = 6000


def improve(problem: GroupingProblem, partition: Partition) -> tuple[Partition, bool]:
    """An optimal grouping, if the search finishes within its budget.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        The best known grouping.

    Returns
    -------
    tuple
        The given partition, or one with fewer groups; and whether it is proved optimal.

    Notes
    -----
    A valid grouping is a sequence of groups, each run after everything it depends on. So a state is the set
    of vertices that have run (hosts run as early as possible), a move runs one more group, and the search is
    for the shortest path from the empty state to the full one: depth first, pruned where the groups so far
    plus a lower bound on the rest reach the best known number, and where the same state was reached with as
    few groups. For a colour without limits that need not be connected, the only move worth trying is all that
    is ready: deferring a ready vertex to a later run of its colour gains nothing. For other colours every
    subset closed under predecessors is a move. Exponential, but it stops after a fixed number of moves, so
    the time is bounded and the result deterministic.
    """
    coloured = len(problem.coloured())
    subsets = problem.connected or problem.bounded
    if not coloured or len(problem.dag) > _MOST_VERTICES or (subsets and coloured > _MOST_COLOURED):
        return partition, False
    search = _ExactSearch.of(problem, len(partition))
    search.run(search.with_hosts(0), ())
    found = [_bits(group) for group in search.best] if search.best is not None else partition
    return found, search.moves <= _MOST_MOVES and not problem.exhausted


def _bits(mask: int) -> list[int]:
    """The members of a bit set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


@dataclass(slots=True)
class _ExactSearch:
    """The state of one search; vertex sets are bit sets in an int."""

    problem: GroupingProblem
    needs: list[int]
    feeds: list[int]
    hosts: int
    of_colour: dict[int, int]
    deeper: dict[int, list[int]]
    """For each colour, at index i, the vertices from which some path touches at least i + 1 of its groups."""
    bound: int
    best: tuple[int, ...] | None
    seen: dict[int, int]
    moves: int

    @classmethod
    def of(cls, problem: GroupingProblem, bound: int) -> _ExactSearch:
        """Convert the problem to bit sets."""
        dag = problem.dag
        colours = problem.colours

        def mask(vertices: Iterator[int]) -> int:
            return sum(1 << vertex for vertex in vertices)

        size = len(dag)
        backwards = problem.reversed()
        deeper = {}
        for colour in problem.limits:
            depth = levels(backwards, colour)
            deeper[colour] = [
                mask(v for v in range(size) if depth[v] >= count) for count in range(1, max(depth) + 1)
            ]
        return cls(
            problem,
            [mask(iter(sources)) for sources in dag.predecessors],
            [mask(iter(targets)) for targets in dag.successors],
            mask(v for v in range(size) if colours[v] is None),
            {colour: mask(v for v in range(size) if colours[v] == colour) for colour in problem.limits},
            deeper,
            bound,
            None,
            {},
            0,
        )

    def run(self, done: int, groups: tuple[int, ...]) -> None:
        """Try every continuation of a state, depth first."""
        if len(groups) + self.remaining(done) >= self.bound or self.seen.get(done, self.bound) <= len(groups):
            return
        self.seen[done] = len(groups)
        if done == (1 << len(self.needs)) - 1:
            self.bound, self.best = len(groups), groups
            return
        for group in self.candidates(done):
            self.moves += 1
            if self.moves > _MOST_MOVES:
                return
            self.run(self.with_hosts(done | group), (*groups, group))

    def with_hosts(self, done: int) -> int:
        """The state after running every host that can run."""
        return self.closure(done, self.hosts)

    def closure(self, done: int, allowed: int) -> int:
        """`done` and all allowed vertices that can run after it using allowed vertices only."""
        waiting = allowed & ~done
        grown = True
        while grown:
            grown = False
            for vertex in _bits(waiting):
                if not self.needs[vertex] & ~done:
                    done |= 1 << vertex
                    waiting ^= 1 << vertex
                    grown = True
        return done

    def remaining(self, done: int) -> int:
        """A lower bound on the remaining groups: for each colour, its levels or its connected parts."""
        total = 0
        for colour, deeper in self.deeper.items():
            bound = sum(1 for vertices in deeper if vertices & ~done)
            if self.problem.limits[colour].connected and bound:
                bound = max(bound, self.count_parts(self.of_colour[colour] & ~done))
            total += bound
        return total

    def count_parts(self, vertices: int) -> int:
        """The number of weakly connected parts of a set."""
        count = 0
        while vertices:
            vertices &= ~self.part(vertices)
            count += 1
        return count

    def part(self, vertices: int) -> int:
        """The weakly connected part that holds the smallest vertex of a set."""
        found = fringe = vertices & -vertices
        while fringe:
            near = 0
            for vertex in _bits(fringe):
                near |= self.needs[vertex] | self.feeds[vertex]
            fringe = near & vertices & ~found
            found |= fringe
        return found

    def candidates(self, done: int) -> Iterator[int]:
        """The candidate groups for the next move, larger ones first."""
        for colour, members in self.of_colour.items():
            ready = self.closure(done, members) & ~done
            limits = self.problem.limits[colour]
            if ready and not limits.connected and not limits.bounded:
                yield ready
            elif ready:
                yield from self.subsets(done, ready, limits.connected)

    def subsets(self, done: int, ready: int, connected: bool) -> Iterator[int]:
        """The subsets of `ready` that may form a group, in descending order of their bit patterns."""
        subset = ready
        while subset and self.moves <= _MOST_MOVES:
            if self.fits(done, subset, connected):
                yield subset
            subset = (subset - 1) & ready

    def fits(self, done: int, group: int, connected: bool) -> bool:
        """Whether a set can run as one group, is connected if required, and is accepted."""
        self.moves += 1
        vertices = _bits(group)
        reached = done | group
        return (
            not any(self.needs[vertex] & ~reached for vertex in vertices)
            and (not connected or self.part(group) == group)
            and (len(vertices) == 1 or self.problem.accepts(vertices))
        )
