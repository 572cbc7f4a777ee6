"""Greedy merging in program order: a vertex joins the groups of its operands if none depends on another."""

from __future__ import annotations

from annotated_region.graphs import CycleError, Dag, DisjointSets, contract
from annotated_region.grouping.problem import GroupingProblem, Partition

__all__ = ["greedy"]


def greedy(problem: GroupingProblem) -> Partition | None:
    """The grouping of TVM's ``MergeCompositeFunctions``, where that is valid.

    As one of the candidates it guarantees a result with no more groups than TVM's. It is the only strategy
    that follows the program order, which model authors often choose well.

    Returns
    -------
    list or None
        The groups in a topological order; None if they close a cycle, or the numbering is not topological.

    Notes
    -----
    Each group carries the set of vertices that it depends on, as of the time its last vertex joined. A vertex
    joins the groups of its operands, except those that another operand's group depends on. Dependencies
    created by later merges are not tracked, so the final grouping is checked for cycles. O(m n / 64) machine
    words for the sets; callers limit n.
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
    """Groups as a union-find forest, with members and transitive dependencies as bit sets."""

    __slots__ = ("_dag", "_groups", "members", "needs", "root")

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._groups = DisjointSets(len(dag))
        self.root = self._groups.find
        self.members = [1 << vertex for vertex in range(len(dag))]
        self.needs = [0] * len(dag)

    def merge(self, left: int, right: int) -> None:
        """Merge two groups; the first one's root is kept."""
        kept, gone = self.root(left), self.root(right)
        if kept != gone:
            self._groups.unite(kept, gone)
            self.members[kept] |= self.members[gone]
            self.needs[kept] |= self.needs[gone]

    def learn(self, vertex: int) -> None:
        """Add the dependencies of a vertex to those of its group."""
        own = self.root(vertex)
        for source in self._dag.predecessors[vertex]:
            other = self.root(source)
            if other != own:
                self.needs[own] |= self.members[other] | self.needs[other]


def _in_order(problem: GroupingProblem, partition: Partition) -> Partition | None:
    """The groups and their vertices in topological order; None if the groups close a cycle."""
    quotient, blocks, _ = contract(problem.dag, partition)
    try:
        order = quotient.topological()
    except CycleError:
        return None
    rank = {vertex: index for index, vertex in enumerate(problem.topological)}
    coloured = (blocks[block] for block in order if problem.colours[blocks[block][0]] is not None)
    return [sorted(block, key=rank.__getitem__) for block in coloured]
