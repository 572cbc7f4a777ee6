"""Graphs, their order, the contraction of groups, and the cycles that are reported."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kits.grouping.grouping_graphs import Graph, graphs
from kits.grouping.grouping_oracle import is_valid, quotient_graph

from annotated_region.graphs import CycleError, Dag, contract, program_order


def test_parallel_edges_count_once_and_predecessors_are_derived() -> None:
    dag = Dag([[1, 1, 2], [2, 2], []])
    assert [list(targets) for targets in dag.successors] == [[1, 2], [2], []]
    assert [list(sources) for sources in dag.predecessors] == [[], [0], [0, 1]]


@given(graphs())
def test_the_reverse_of_the_reverse_is_the_graph(graph: Graph) -> None:
    dag = Dag(graph[0])
    assert dag.reversed().successors == dag.predecessors
    assert dag.reversed().reversed() == dag


@pytest.mark.parametrize("target", [2, -1])
def test_an_edge_that_leaves_the_graph_is_refused(target: int) -> None:
    with pytest.raises(ValueError, match=rf"edge 0 -> {target} leaves the vertices 0\.\.1"):
        Dag([[target], []])


@given(graphs())
def test_a_topological_order_puts_every_producer_first(graph: Graph) -> None:
    place = {vertex: index for index, vertex in enumerate(Dag(graph[0]).topological())}
    assert sorted(place) == list(range(len(graph[0])))
    assert all(place[v] < place[target] for v, targets in enumerate(graph[0]) for target in targets)


@pytest.mark.parametrize(
    ("successors", "cycle"),
    [
        ([[0]], [(0,)]),
        ([[1], [2], [0]], [(0,), (1,), (2,)]),
        ([[1], [3, 2], [1], []], [(1,), (2,)]),
        ([[], [2, 0], [1]], [(1,), (2,)]),
        ([[2], [0], [3], [2, 1], [0]], [(0,), (2,), (3,), (1,)]),
    ],
)
def test_a_cyclic_graph_is_refused_with_its_cycle(
    successors: list[list[int]], cycle: list[tuple[int, ...]]
) -> None:
    with pytest.raises(CycleError, match="the graph has a cycle: ") as caught:
        Dag(successors).topological()
    found = [block[0] for block in caught.value.cycle]
    assert all(head in successors[tail] for tail, head in zip(found, found[1:] + found[:1], strict=True))
    if len(cycle) < 4:  # the last graph has more than one
        assert list(caught.value.cycle) == cycle


def test_contract_numbers_the_blocks_by_their_smallest_vertex() -> None:
    quotient, blocks, block_of = contract(Dag([[1, 2], [3], [3], []]), [(3, 1)])
    assert blocks == [(0,), (1, 3), (2,)]
    assert block_of == [0, 1, 2, 1]
    assert [list(targets) for targets in quotient.successors] == [[1, 2], [], [1]]


@pytest.mark.parametrize("groups", [[(0, 1), (1, 2)], [(1, 1)]])
def test_contract_refuses_groups_that_overlap(groups: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="a vertex lies in two groups, or twice in one"):
        contract(Dag([[], [], []]), groups)


@pytest.mark.parametrize("vertex", [3, -1])
def test_contract_refuses_a_vertex_that_is_not_there(vertex: int) -> None:
    with pytest.raises(ValueError, match=r"a group names a vertex outside 0\.\.2"):
        contract(Dag([[], [], []]), [(0, vertex)])


def test_order_stays_as_close_to_the_program_as_the_groups_allow() -> None:
    assert program_order(Dag([[2], [3], [3], [], []]), [(0, 2)]) == [(0, 2), (1,), (3,), (4,)]
    assert program_order(Dag([[2], [3], [3], [], []]), []) == [(0,), (1,), (2,), (3,), (4,)]
    assert program_order(Dag([[1], [], [1]]), []) == [(0,), (2,), (1,)]


def test_order_names_the_groups_that_need_each_other() -> None:
    with pytest.raises(CycleError, match=r"\{0, 3\} -> \{1, 2\}") as caught:
        program_order(Dag([[1], [], [3], []]), [(0, 3), (1, 2)])
    assert caught.value.cycle == ((0, 3), (1, 2))


@given(graphs(), st.data())
def test_order_is_a_certificate_or_a_cycle(graph: Graph, data: st.DataObject) -> None:
    size = len(graph[0])
    colours = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    groups = [[v for v in range(size) if colours[v] == colour] for colour in range(3)]
    groups = [group for group in groups if group]
    quotient = quotient_graph(graph[0], groups)
    try:
        blocks = program_order(Dag(graph[0]), groups)
    except CycleError as error:
        assert not is_valid(graph[0], groups)
        names = [block[0] for block in error.cycle]
        assert len(names) > 1
        assert all(quotient.has_edge(*edge) for edge in zip(names, names[1:] + names[:1], strict=True))
        return
    assert sorted(vertex for block in blocks for vertex in block) == list(range(size))
    assert [block[0] for block in blocks] == list(nx.lexicographical_topological_sort(quotient))
