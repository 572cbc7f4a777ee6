"""Beam search for the fewest runs of several colours, over partial orders of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from annotated_region.graphs import Dag
from annotated_region.grouping.bounds import levels
from annotated_region.grouping.problem import GroupingProblem
from annotated_region.grouping.waves import Positions

__all__ = ["beam"]


def beam(problem: GroupingProblem, width: int) -> Positions:
    """Positions with few runs; see `annotated_region.grouping.waves` for what they mean.

    Parameters
    ----------
    problem
        The graph and its colours.
    width
        The number of states kept per step; unlimited, the search would be exact.

    Notes
    -----
    A state is the set of vertices that have run. A step runs one more colour to exhaustion in every kept
    state, and keeps the states with the smallest lower bound on the remaining runs: the sum over the colours
    of the longest remaining path, counted in groups of that colour. Ties go to the states that have run more
    vertices. With the bound as the only merit this is the look-ahead majority merge of the shortest common
    supersequence; see Blum, Cotta, Fernandez, Gallardo and Mastrolilli, "Hybridizations of metaheuristics
    with branch & bound derivates" (2008).

    O(width k (n + m)) to run vertices for k colours, and O(width k n / 64) machine words per run for the
    sets: quadratic in principle, so callers limit n.
    """
    board = _Board.of(problem)
    states = [board.start()]
    while states[0].done != board.everything:
        found: dict[int, _BeamState] = {}
        for state in states:
            for following in board.steps(state):
                found.setdefault(following.done, following)
        states = sorted(found.values(), key=_BeamState.merit)[:width]
    return board.positions(states[0])


@dataclass(frozen=True, slots=True)
class _BeamState:
    """A partial order of runs.

    Attributes
    ----------
    done
        The vertices that have run, as a bit set.
    ready
        The coloured vertices whose predecessors have all run.
    left
        For each colour, the most groups of it on a path of vertices that have not run.
    run, before
        The last run, and the state before it.
    """

    done: int
    ready: tuple[int, ...]
    left: tuple[int, ...]
    run: tuple[int, ...] = ()
    before: _BeamState | None = None

    def merit(self) -> tuple[int, int]:
        """Smaller is better."""
        return sum(self.left), -self.done.bit_count()


@dataclass(frozen=True, slots=True)
class _Board:
    """The problem as bit sets: bit v of an int stands for vertex v.

    Attributes
    ----------
    needs
        The predecessors of each vertex.
    deeper
        For each colour, then for each count, the vertices that start a path through at least that many of its
        groups. The bound of a colour is the largest count whose set has a vertex that has not run.
    everything
        All vertices.
    """

    dag: Dag
    colours: list[int | None]
    needs: list[int]
    deeper: list[list[int]]
    everything: int

    @classmethod
    def of(cls, problem: GroupingProblem) -> _Board:
        """Convert the problem to bit sets."""
        backwards = problem.reversed()
        needs = [_mask(sources) for sources in problem.dag.predecessors]
        deeper = [_nested(levels(backwards, colour)) for colour in problem.limits]
        return cls(problem.dag, problem.colours, needs, deeper, (1 << len(problem.dag)) - 1)

    def start(self) -> _BeamState:
        """The initial state: only hosts without coloured predecessors have run."""
        sources = [vertex for vertex, needs in enumerate(self.needs) if not needs]
        return self.after(_BeamState(0, (), tuple(len(masks) - 1 for masks in self.deeper)), 0, (), sources)

    def steps(self, state: _BeamState) -> list[_BeamState]:
        """One successor state for each colour with a ready vertex."""
        kinds = dict.fromkeys(self.colours[vertex] for vertex in state.ready)
        return [self.step(state, colour) for colour in kinds]

    def step(self, state: _BeamState, colour: int | None) -> _BeamState:
        """The state after running all vertices of one colour that are ready or become ready meanwhile."""
        queue = [vertex for vertex in state.ready if self.colours[vertex] == colour]
        freed = [vertex for vertex in state.ready if self.colours[vertex] != colour]
        done = state.done
        for vertex in queue:  # grows
            done |= 1 << vertex
            for target in self.freed_by(vertex, done):
                (queue if self.colours[target] == colour else freed).append(target)
        return self.after(state, done, tuple(queue), freed)

    def after(self, state: _BeamState, done: int, run: tuple[int, ...], freed: list[int]) -> _BeamState:
        """Run the hosts among `freed` and those that they free in turn; other freed vertices are ready."""
        ready = []
        for vertex in freed:  # grows
            if self.colours[vertex] is None:
                done |= 1 << vertex
                freed.extend(self.freed_by(vertex, done))
            else:
                ready.append(vertex)
        left = []
        for masks, most in zip(self.deeper, state.left, strict=True):
            left.append(next(count for count in range(most, -1, -1) if not count or masks[count] & ~done))
        return _BeamState(done, tuple(ready), tuple(left), run, state)

    def freed_by(self, vertex: int, done: int) -> list[int]:
        """The successors of `vertex` whose predecessors have all run."""
        missing = ~done
        return [target for target in self.dag.successors[vertex] if not self.needs[target] & missing]

    def positions(self, state: _BeamState) -> Positions:
        """The runs that led to a state, as positions."""
        runs = []
        link: _BeamState | None = state
        while link is not None:
            if link.run:
                runs.append(link.run)
            link = link.before
        found = [-1] * len(self.dag)
        for number, run in enumerate(reversed(runs)):
            for vertex in run:
                found[vertex] = number
        return found


def _mask(vertices: Iterable[int]) -> int:
    """A bit set of vertices."""
    return reduce(lambda bits, vertex: bits | 1 << vertex, vertices, 0)


def _nested(depth: list[int]) -> list[int]:
    """For each count, the bit set of the vertices at least that deep; the set for 0 has all vertices."""
    found = [0] * (max(depth, default=0) + 1)
    for vertex, count in enumerate(depth):
        found[count] |= 1 << vertex
    for count in range(len(found) - 1, 0, -1):
        found[count - 1] |= found[count]
    return found
