"""Beam search for the fewest runs of several colours: a few partial orders of runs are kept at each step."""

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
        How many states are kept; with all of them kept the answer would be optimal.

    Notes
    -----
    A state is the set of vertices that have run. A step runs one more colour as far as it goes, in every
    state kept, and keeps the states with the smallest bound on what is left, the sum over the colours of the
    longest path counted in groups of that colour; among equals, those that have done more. With the bound as
    the only merit this is the look-ahead majority merge of the shortest common supersequence; see Blum,
    Cotta, Fernandez, Gallardo and Mastrolilli, "Hybridizations of metaheuristics with branch & bound
    derivates" (2008).

    O(width k (n + m)) steps of running vertices for k colours, and O(width k n / 64) machine words a run for
    the sets: quadratic in principle, so callers keep n small.
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
    """What has run, what could run next, the bound of each colour, and how it came to be."""

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
    """The problem as bit sets."""

    dag: Dag
    colours: list[int | None]
    needs: list[int]
    deeper: list[list[int]]
    everything: int

    @classmethod
    def of(cls, problem: GroupingProblem) -> _Board:
        """Turn the problem into bit sets."""
        backwards = problem.reversed()
        needs = [_mask(sources) for sources in problem.dag.predecessors]
        deeper = [_nested(levels(backwards, colour)) for colour in problem.limits]
        return cls(problem.dag, problem.colours, needs, deeper, (1 << len(problem.dag)) - 1)

    def start(self) -> _BeamState:
        """The state in which only hosts have run."""
        sources = [vertex for vertex, needs in enumerate(self.needs) if not needs]
        return self.after(_BeamState(0, (), tuple(len(masks) - 1 for masks in self.deeper)), 0, (), sources)

    def steps(self, state: _BeamState) -> list[_BeamState]:
        """One state for each colour that could run."""
        kinds = dict.fromkeys(self.colours[vertex] for vertex in state.ready)
        return [self.step(state, colour) for colour in kinds]

    def step(self, state: _BeamState, colour: int | None) -> _BeamState:
        """The state after running everything of one colour that is ready or becomes so."""
        queue = [vertex for vertex in state.ready if self.colours[vertex] == colour]
        freed = [vertex for vertex in state.ready if self.colours[vertex] != colour]
        done = state.done
        for vertex in queue:  # grows
            done |= 1 << vertex
            for target in self.freed_by(vertex, done):
                (queue if self.colours[target] == colour else freed).append(target)
        return self.after(state, done, tuple(queue), freed)

    def after(self, state: _BeamState, done: int, run: tuple[int, ...], freed: list[int]) -> _BeamState:
        """Run the hosts among `freed` and those that they free; what is left of it is ready."""
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
        """The successors of `vertex` that wait for nothing any more."""
        missing = ~done
        return [target for target in self.dag.successors[vertex] if not self.needs[target] & missing]

    def positions(self, state: _BeamState) -> Positions:
        """The runs that led to a state, numbered."""
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
    """The set as bits."""
    return reduce(lambda bits, vertex: bits | 1 << vertex, vertices, 0)


def _nested(depth: list[int]) -> list[int]:
    """For each count the set of vertices at least that deep; the set for 0 is everything."""
    found = [0] * (max(depth, default=0) + 1)
    for vertex, count in enumerate(depth):
        found[count] |= 1 << vertex
    for count in range(len(found) - 1, 0, -1):
        found[count - 1] |= found[count]
    return found
