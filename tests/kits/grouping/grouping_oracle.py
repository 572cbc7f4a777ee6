"""Other ways to the same answers: brute force, Kahn waves, a greedy merge in the manner of TVM, networkx."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import networkx as nx

Groups = Sequence[Sequence[int]]


def quotient_graph(successors: Sequence[Sequence[int]], groups: Groups) -> nx.DiGraph:
    """The quotient graph; blocks are named by their smallest vertex."""
    name = {vertex: min(group) for group in groups for vertex in group}
    graph = nx.DiGraph()
    graph.add_nodes_from(name.get(vertex, vertex) for vertex in range(len(successors)))
    for source, targets in enumerate(successors):
        ends = ((name.get(source, source), name.get(target, target)) for target in targets)
        graph.add_edges_from((tail, head) for tail, head in ends if tail != head)
    return graph


def is_valid(successors: Sequence[Sequence[int]], groups: Groups) -> bool:
    """Whether contracting the groups leaves the graph acyclic."""
    return bool(nx.is_directed_acyclic_graph(quotient_graph(successors, groups)))


def is_connected(successors: Sequence[Sequence[int]], group: Sequence[int]) -> bool:
    """Whether a group hangs together through its own edges."""
    graph = nx.Graph()
    graph.add_nodes_from(group)
    graph.add_edges_from((v, target) for v in group for target in successors[v] if target in set(group))
    return bool(nx.is_connected(graph))


def fewest_groups(
    successors: Sequence[Sequence[int]],
    colours: Sequence[int | None],
    connected: bool = False,
    accept: Callable[[list[int]], bool] = lambda group: True,
) -> int:
    """The true optimum: every way to run the graph group by group, over all subsets that could run next.

    Groups of one vertex need no acceptance.
    """
    size = len(successors)
    needs = [sum(1 << u for u in range(size) if v in successors[u]) for v in range(size)]
    touches = [needs[v] | sum(1 << target for target in successors[v]) for v in range(size)]
    everything = (1 << size) - 1

    def members(mask: int) -> list[int]:
        return [vertex for vertex in range(size) if mask >> vertex & 1]

    def grown(done: int, allowed: int) -> int:
        while True:
            more = sum(1 << v for v in members(allowed & ~done) if not needs[v] & ~done)
            if not more:
                return done
            done |= more

    @cache
    def may_be_a_group(mask: int) -> bool:
        vertices = members(mask)
        if len(vertices) == 1:
            return True
        if connected:
            seen, before = mask & -mask, 0
            while seen != before:
                before = seen
                for vertex in members(seen):
                    seen |= touches[vertex] & mask
            if seen != mask:
                return False
        return accept(vertices)

    host = sum(1 << v for v in range(size) if colours[v] is None)
    kinds = [sum(1 << v for v in range(size) if colours[v] == kind) for kind in set(colours) - {None}]

    @cache
    def rest(done: int) -> int:
        if done == everything:
            return 0
        best = size
        for kind in kinds:
            ready = grown(done, kind) & ~done
            subset = ready
            while subset:
                closed = not any(needs[v] & ~(done | subset) for v in members(subset))
                if closed and may_be_a_group(subset):
                    best = min(best, 1 + rest(grown(done | subset, host)))
                subset = (subset - 1) & ready
        return best

    return rest(grown(0, host))


def fewest_by_partitions(
    successors: Sequence[Sequence[int]], colours: Sequence[int | None], connected: bool
) -> int:
    """The optimum over all set partitions of the coloured vertices: slower still, and simpler."""
    coloured = [vertex for vertex, colour in enumerate(colours) if colour is not None]
    return min(
        len(groups)
        for groups in set_partitions(coloured)
        if all(len({colours[v] for v in group}) == 1 for group in groups)
        and (not connected or all(is_connected(successors, group) for group in groups))
        and is_valid(successors, groups)
    )


def set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Every partition of a list."""
    if not items:
        yield []
        return
    for smaller in set_partitions(items[1:]):
        yield [[items[0]], *smaller]
        for index, group in enumerate(smaller):
            yield [*smaller[:index], [items[0], *group], *smaller[index + 1 :]]


def kahn_waves(successors: Sequence[Sequence[int]], colours: Sequence[int | None]) -> int:
    """Everything of each colour that is ready, colour by colour, then every host op, and so on to the end."""
    missing = [0] * len(successors)
    for targets in successors:
        for target in targets:
            missing[target] += 1
    done: set[int] = set()
    count = 0
    while len(done) < len(successors):
        for kind in [*sorted({colour for colour in colours if colour is not None}), None]:
            wave = [
                v for v in range(len(successors)) if v not in done and not missing[v] and colours[v] == kind
            ]
            count += bool(wave) and kind is not None
            for vertex in wave:  # grows
                done.add(vertex)
                for target in successors[vertex]:
                    missing[target] -= 1
                    if not missing[target] and colours[target] == kind:
                        wave.append(target)
    return count


def tvm_style(successors: Sequence[Sequence[int]], colours: Sequence[int | None]) -> list[list[int]]:
    """Greedy merging in program order, in the manner of ``MergeCompositeFunctions``.

    Each group carries the set of groups that it depends on, as known when its last member joined, so a
    dependency that arises later elsewhere is missed: the answer may be invalid. Vertices have to be numbered
    topologically.
    """
    size = len(successors)
    operands: list[list[int]] = [[] for _ in range(size)]
    for vertex, targets in enumerate(successors):
        for target in targets:
            operands[target].append(vertex)
    parent = list(range(size))
    depends: list[set[int]] = [set() for _ in range(size)]

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            vertex = parent[vertex]
        return vertex

    for vertex in range(size):
        behind = {root(other) for operand in operands[vertex] for other in depends[root(operand)]}
        joined = [
            root(operand)
            for operand in operands[vertex]
            if colours[vertex] is not None
            and colours[operand] == colours[vertex]
            and root(operand) not in behind
        ]
        for group in joined:
            left, own = root(group), root(vertex)
            if left != own:
                parent[own] = left
                depends[left] |= depends[own]
        own = root(vertex)
        for operand in operands[vertex]:
            if root(operand) != own:
                depends[own] |= {root(operand)} | depends[root(operand)]
    groups: dict[int, list[int]] = {}
    for vertex in range(size):
        if colours[vertex] is not None:
            groups.setdefault(root(vertex), []).append(vertex)
    return list(groups.values())
