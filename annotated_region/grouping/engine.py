"""The grouping engine: runs several strategies and returns the best grouping found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from annotated_region.graphs import CycleError, Dag
from annotated_region.grouping.beam import beam
from annotated_region.grouping.bounds import lower_bound
from annotated_region.grouping.components import cut_runs
from annotated_region.grouping.exact import improve
from annotated_region.grouping.joining import join
from annotated_region.grouping.problem import ColourLimits, Grouping, GroupingProblem, Partition
from annotated_region.grouping.program_order import greedy
from annotated_region.grouping.refinement import crossings, refined
from annotated_region.grouping.refining import refine
from annotated_region.grouping.separating import Part, localised, one_group, separated, together
from annotated_region.grouping.splitting import split
from annotated_region.grouping.waves import POLICIES, Positions, tails, turned, waves

__all__ = ["group"]

_NO_LIMITS: Mapping[int, ColourLimits] = {}

_SMALL = 20_000
"""Graphs with more vertices and edges get fewer strategies, which keeps their time near one second."""

_BITS_SMALL = 6_000
"""Strategies with one bit set of all vertices per vertex are limited to graphs of this size."""


def group(
    dag: Dag,
    colours: Sequence[int | None],
    weights: Sequence[int] | None = None,
    limits: Mapping[int, ColourLimits] = _NO_LIMITS,
    *,
    fixed: Sequence[Sequence[int]] = (),
    effort: int = 2,
) -> Grouping:
    """Assign the coloured vertices to as few groups as possible such that the quotient graph is acyclic.

    Parameters
    ----------
    dag
        The graph; need not be numbered topologically.
    colours
        The colour of each vertex; None for the host, whose vertices stay alone.
    weights
        The weight of each vertex; 1 if not given.
    limits
        The limits by colour; a colour without an entry is unlimited and need not be connected.
    fixed
        Disjoint sets of vertices of one colour that must stay together; each counts as connected.
    effort
        0: constructive strategies only; 1: the best grouping is also refined; 2: small graphs are also
        searched exhaustively for the optimum.

    Raises
    ------
    CycleError
        The graph is cyclic, or becomes cyclic when the fixed groups are contracted.
    ValueError
        The arguments do not fit together.

    Notes
    -----
    O((n + m) log n): each strategy is, and there is a fixed number of them. See ``docs/merging.md``. Parts
    between host vertices that separate the graph are grouped independently.

    Examples
    --------
    >>> group(Dag([[1, 2], [2], []]), [0, None, 0]).groups
    ((0,), (2,))
    """
    whole = _Whole(dag, colours, weights, limits, fixed, effort)
    found = separated(dag, colours, limits, fixed) if weights is None or len(weights) == len(dag) else []
    if not found:
        return _grouped(GroupingProblem.of(dag, colours, weights, limits, fixed), effort)
    return together(
        len(dag), ((part, whole.grouped(part, blocks)) for part, blocks in whole.blocks_of(found))
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """The arguments of `group`, for one part after the other."""

    dag: Dag
    colours: Sequence[int | None]
    weights: Sequence[int] | None
    limits: Mapping[int, ColourLimits]
    fixed: Sequence[Sequence[int]]
    effort: int

    def blocks_of(self, found: Sequence[Part]) -> Iterator[tuple[Part, list[Sequence[int]]]]:
        """Each part with the fixed groups that lie in it."""
        part_of = {vertex: index for index, part in enumerate(found) for vertex in part}
        blocks: list[list[Sequence[int]]] = [[] for _ in found]
        for block in self.fixed:
            if block:
                blocks[part_of[block[0]]].append(block)
        yield from zip(found, blocks, strict=True)

    def grouped(self, part: Part, blocks: Sequence[Sequence[int]]) -> Grouping:
        """The grouping of one part, in its own numbers."""
        dag = self.dag.induced(part)
        colours = [self.colours[vertex] for vertex in part]
        if one_group(dag, colours, self.limits):
            return Grouping((tuple(range(len(part))),), (0,) * len(part), {}, 1)
        local = {vertex: index for index, vertex in enumerate(part)}
        fixed = [[local[vertex] for vertex in block] for block in blocks]
        weights = None if self.weights is None else [self.weights[vertex] for vertex in part]
        try:
            problem = GroupingProblem.of(dag, colours, weights, localised(self.limits, part), fixed)
            return _grouped(problem, self.effort)
        except CycleError as error:
            raise CycleError([tuple(part[vertex] for vertex in block) for block in error.cycle]) from None


def _grouped(problem: GroupingProblem, effort: int) -> Grouping:
    """The best grouping that the strategies find."""
    bound = lower_bound(problem)
    found = list(_constructed(problem, bound))
    best = min(found, key=lambda partition: _cost(problem, partition)) if len(found) > 1 else found[0]
    if effort > 0 and len(best) > bound and (problem.connected or problem.bounded):
        best = refine(problem, best)
    if effort > 1 and len(best) > bound:
        best, proved = improve(problem, best)
        bound = len(best) if proved else bound
    if len(problem.limits) > 1 and not problem.connected and not problem.bounded:
        best = cut_runs(problem, refined(problem, _as_positions(problem, best)))
    return _answer(problem, best, bound)


def _constructed(problem: GroupingProblem, bound: int) -> Iterator[Partition]:
    """A partition from each suitable strategy; large graphs stop at the first that meets the bound."""
    size = len(problem.dag) + sum(map(len, problem.dag.successors))
    for positions in _positions(problem, size):
        partition = split(problem, cut_runs(problem, refined(problem, positions)))
        if len(partition) > bound:
            partition = join(problem, partition)
        yield partition
        if len(partition) == bound and size > _SMALL:
            return
    if problem.connected and size <= _SMALL:
        yield join(problem, [[vertex] for vertex in problem.coloured()])
    if size <= _BITS_SMALL and (problem.connected or len(problem.limits) > 1):
        merged = greedy(problem)
        if merged is not None:
            yield join(problem, split(problem, merged))


def _positions(problem: GroupingProblem, size: int) -> Iterator[Positions]:
    """Runs built from the sinks backwards and from the sources forwards; with several colours, by several
    policies.

    Backwards comes first: of the two it gives fewer groups where groups must be connected.
    """
    several = len(problem.limits) > 1
    small = size <= _SMALL
    policies = POLICIES if several and small else POLICIES[:1]
    for side in (problem.reversed(), problem) if small else (problem.reversed(),):
        found = [waves(side, tails(side), policy) for policy in policies]
        if several and size <= _BITS_SMALL:
            found.append(beam(side, max(1, 16 * _SMALL // (_SMALL + 100 * size))))
        yield from found if side is problem else map(turned, found)


def _as_positions(problem: GroupingProblem, partition: Partition) -> Positions:
    """Convert a partition in topological order to positions, so that it can be refined."""
    positions = [-1] * len(problem.dag)
    for run, members in enumerate(partition):
        for vertex in members:
            positions[vertex] = run
    return positions


def _cost(problem: GroupingProblem, partition: Partition) -> tuple[int, int]:
    """The number of groups, then the number of crossing values."""
    return len(partition), crossings(problem, _as_positions(problem, partition))


def _answer(problem: GroupingProblem, partition: Partition, bound: int) -> Grouping:
    """The grouping in the caller's vertices, with refused and surplus groups left over."""
    left_over: dict[int, str | None] = {
        part[0]: refusal
        for part in partition
        if len(part) == 1 and (refusal := problem.refusal(part)) is not None
    }
    kept = [part for part in partition if part[0] not in left_over]
    for colour, limits in problem.limits.items():
        for part in _surplus(problem, kept, colour, limits.max_groups):
            left_over.update(dict.fromkeys(part))
    groups = sorted(_expanded(problem, part) for part in kept if part[0] not in left_over)
    if left_over:
        colours = [None if v in left_over else colour for v, colour in enumerate(problem.colours)]
        bound = lower_bound(replace(problem, colours=colours))
    size = sum(map(len, problem.blocks))
    group_of: list[int | None] = [None] * size
    for index, members in enumerate(groups):
        for vertex in members:
            group_of[vertex] = index
    reasons = {member: left_over[vertex] for vertex in left_over for member in problem.blocks[vertex]}
    return Grouping(tuple(groups), tuple(group_of), dict(sorted(reasons.items())), bound)


def _surplus(problem: GroupingProblem, partition: Partition, colour: int, most: int | None) -> Partition:
    """The lightest groups of a colour, in excess of the number allowed."""
    own = [part for part in partition if problem.colours[part[0]] == colour]
    if most is None or len(own) <= most:
        return []
    heavy = sorted(
        own, key=lambda part: (-sum(problem.weights[v] for v in part), min(problem.blocks[part[0]]))
    )
    return heavy[most:]


def _expanded(problem: GroupingProblem, part: Sequence[int]) -> tuple[int, ...]:
    """A group in the caller's vertices, ascending."""
    return tuple(sorted(vertex for block in part for vertex in problem.blocks[block]))
