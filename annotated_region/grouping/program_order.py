"""Greedy merging in program order: a vertex joins the groups of its operands, unless one needs another."""

from __future__ import annotations

from annotated_region.graphs import CycleError, Dag, DisjointSets, contract
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["greedy"]


def greedy(problem: GroupingProblem) -> Partition | None:
    """The answer of TVM's ``MergeCompositeFunctions``, where that is valid.

    Having it among the candidates means never to answer with more groups. It is the one strategy that follows
    the program's own order, which its authors often chose well.

    Returns
    -------
    list or None
        The groups in a topological order; None if they close a cycle, or the numbering is not topological.

    Notes
    -----
    Each group carries the set of vertices that it depends on, as known when its last vertex joined. A vertex
    joins the groups of all those operands that no operand's group depends on. A dependency that a later merge
    brings about is not seen, so the result is checked as a whole. O(m n / 64) machine words for the sets;
    callers keep n small.
    """
    program = sorted(range(len(problem.dag)), key=lambda vertex: max(problem.blocks[vertex]))
    rank = {vertex: index for index, vertex in enumerate(program)}
    if any(rank[target] < rank[v] for v in program for target in problem.dag.successors[v]):
        return None
    state = _GroupForest(problem.dag)
    for vertex in program:
        colour = problem.colours[vertex]
        operands = dict.fromkeys(state.root(source) for source in problem.dag.predecessors[vertex])
        behind = 0
        for operand in operands:
            behind |= state.needs[operand]
        if colour is not None:
            for operand in operands:
                if problem.colours[operand] == colour and not behind & state.members[operand]:
                    state.merge(operand, vertex)
        state.learn(vertex)
    groups: dict[int, list[int]] = {}
    for vertex in problem.coloured():
        groups.setdefault(state.root(vertex), []).append(vertex)
    return _in_order(problem, list(groups.values()))


class _GroupForest:
    """Groups as a union-find forest, with their members and what they need as bit sets."""

    __slots__ = ("_dag", "_groups", "members", "needs", "root")

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._groups = DisjointSets(len(dag))
        self.root = self._groups.find
        self.members = [1 << vertex for vertex in range(len(dag))]
        self.needs = [0] * len(dag)

    def merge(self, left: int, right: int) -> None:
        """Make one group of two; it is named by the first."""
        kept, gone = self.root(left), self.root(right)
        if kept != gone:
            self._groups.unite(kept, gone)
            self.members[kept] |= self.members[gone]
            self.needs[kept] |= self.needs[gone]

    def learn(self, vertex: int) -> None:
        """Tell a vertex's group what it needs because of this vertex."""
        own = self.root(vertex)
        for source in self._dag.predecessors[vertex]:
            other = self.root(source)
            if other != own:
                self.needs[own] |= self.members[other] | self.needs[other]


def _in_order(problem: GroupingProblem, partition: Partition) -> Partition | None:
    """The groups, and the vertices of each, in topological order, unless they close a cycle."""
    quotient, blocks, _ = contract(problem.dag, partition)
    try:
        order = quotient.topological()
    except CycleError:
        return None
    rank = {vertex: index for index, vertex in enumerate(problem.topological)}
    coloured = (blocks[block] for block in order if problem.colours[blocks[block][0]] is not None)
    return [sorted(block, key=rank.__getitem__) for block in coloured]
