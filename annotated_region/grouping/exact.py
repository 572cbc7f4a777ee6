"""The true optimum of small scopes, by a bounded search over the order in which groups can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from annotated_region.grouping.bounds import levels
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["improve"]

_MOST_VERTICES = 64
_MOST_COLOURED = 16
"""Beyond this the subsets that could be groups are too many to finish with."""

_MOST_MOVES = 6000


def improve(problem: GroupingProblem, partition: Partition) -> tuple[Partition, bool]:
    """A grouping with the fewest groups, if the search can finish within its budget.

    Parameters
    ----------
    problem
        Graph and limits.
    partition
        The best grouping known.

    Returns
    -------
    tuple
        The partition given, or one with fewer groups; and whether it is proved that there is none with fewer.

    Notes
    -----
    A valid grouping is a sequence of groups in which everything that a group needs ran before. So a state is
    the set of vertices that have run (hosts run as soon as they can), a move runs one more group, and the
    search is for the shortest way from nothing to everything: depth first, pruned where the groups so far and
    a lower bound on the rest reach the best known, and where the same state was reached with as few groups.
    For a colour without limits that need not be connected the only move worth trying is everything that is
    ready, because whatever else could run there instead can run after it as well; for the others every subset
    closed under predecessors is a move. Exponential; stops after a fixed number of moves, so the time is
    bounded and the answer the same everywhere.
    """
    coloured = len(problem.coloured())
    subsets = problem.connected or problem.bounded
    if not coloured or len(problem.dag) > _MOST_VERTICES or (subsets and coloured > _MOST_COLOURED):
        return partition, False
    search = _ExactSearch.of(problem, len(partition))
    search.run(search.settled(0), ())
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
    """The state of one search; sets of vertices are bits of an int."""

    problem: GroupingProblem
    needs: list[int]
    feeds: list[int]
    hosts: int
    of_colour: dict[int, int]
    deeper: dict[int, list[int]]
    """For each colour and number of groups, the vertices from which some path touches that many more."""
    bound: int
    best: tuple[int, ...] | None
    seen: dict[int, int]
    moves: int

    @classmethod
    def of(cls, problem: GroupingProblem, bound: int) -> _ExactSearch:
        """Turn the problem into bit sets."""
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
        """Try every continuation of the groups that have run."""
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
            self.run(self.settled(done | group), (*groups, group))

    def settled(self, done: int) -> int:
        """The state once every host that could run has run."""
        return self.closure(done, self.hosts)

    def closure(self, done: int, allowed: int) -> int:
        """`done` and all that can run after it using allowed vertices only."""
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
        """A lower bound on the groups still to come: the sum over the colours of the larger of two bounds."""
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
        """The groups that could run next, large ones first."""
        for colour, members in self.of_colour.items():
            ready = self.closure(done, members) & ~done
            limits = self.problem.limits[colour]
            if ready and not limits.connected and not limits.bounded:
                yield ready
            elif ready:
                yield from self.subsets(done, ready, limits.connected)

    def subsets(self, done: int, ready: int, connected: bool) -> Iterator[int]:
        """The subsets of what is ready that may form a group, in descending order of their bits."""
        subset = ready
        while subset and self.moves <= _MOST_MOVES:
            if self.fits(done, subset, connected):
                yield subset
            subset = (subset - 1) & ready

    def fits(self, done: int, group: int, connected: bool) -> bool:
        """Whether a set can run at once, hangs together if it has to, and is accepted."""
        self.moves += 1
        vertices = _bits(group)
        reached = done | group
        return (
            not any(self.needs[vertex] & ~reached for vertex in vertices)
            and (not connected or self.part(group) == group)
            and (len(vertices) == 1 or self.problem.accepts(vertices))
        )
