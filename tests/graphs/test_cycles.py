"""Cycles that are found, and the core that they leave, against networkx."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated_region.graphs import CycleError, Dag, cyclic_core, find_cycle, is_acyclic
from annotated_region.graphs.cycles import indegrees, peeled


@st.composite
def any_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Graphs with or without cycles, edges from a vertex to itself included."""
    size = draw(st.integers(1, 8))
    vertices = st.integers(0, size - 1)
    return draw(st.lists(st.lists(vertices, max_size=3, unique=True), min_size=size, max_size=size))


def network(successors: list[list[int]]) -> nx.DiGraph:
    return nx.DiGraph(dict(enumerate(successors)))


@given(any_graphs())
def test_a_cycle_is_found_exactly_where_there_is_one(successors: list[list[int]]) -> None:
    cycle = find_cycle(successors)
    assert bool(cycle) != nx.is_directed_acyclic_graph(network(successors))
    assert len(set(cycle)) == len(cycle)
    assert all(head in successors[tail] for tail, head in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert not cycle or cycle[0] == min(cycle)


@given(any_graphs())
def test_the_core_lies_on_cycles_or_between_them(successors: list[list[int]]) -> None:
    graph = network(successors)
    on_cycle = {v for part in nx.strongly_connected_components(graph) if len(part) > 1 for v in part}
    on_cycle |= {vertex for vertex, targets in enumerate(successors) if vertex in targets}
    behind = {v for u in on_cycle for v in nx.descendants(graph, u) | {u}}
    before = {v for u in on_cycle for v in nx.ancestors(graph, u) | {u}}
    assert cyclic_core(successors) == sorted(behind & before)


def test_the_core_leaves_out_what_leads_into_cycles_and_out_of_them() -> None:
    #  0 -> 1 <-> 2 -> 3 -> 4 <-> 5 -> 6: vertex 3 lies between the two cycles
    assert cyclic_core([[1], [2], [1, 3], [4], [5], [4, 6], []]) == [1, 2, 3, 4, 5]


@given(any_graphs())
def test_peeling_counts_what_is_left_of_the_predecessors(successors: list[list[int]]) -> None:
    waiting = indegrees(successors)
    assert waiting == [sum(v in targets for targets in successors) for v in range(len(successors))]
    placed = set(peeled(successors, waiting))
    for vertex in range(len(successors)):
        left = [u for u, targets in enumerate(successors) if vertex in targets and u not in placed]
        assert waiting[vertex] == len(left)
        assert (vertex in placed) == (not left)


def test_an_error_can_be_told_in_the_vertices_that_were_contracted() -> None:
    error = CycleError([(1,), (0,)]).expanded([(0, 3), (1,)])
    assert error.cycle == ((1,), (0, 3))
    assert str(error) == "the graph has a cycle: 1 -> {0, 3} -> 1"


@pytest.mark.parametrize(("groups", "expected"), [([(0, 2)], False), ([(0, 1)], True), ([], True)])
def test_a_graph_is_acyclic_or_not_after_contraction(groups: list[tuple[int, ...]], expected: bool) -> None:
    assert is_acyclic(Dag([[1], [2], []]), groups) is expected
