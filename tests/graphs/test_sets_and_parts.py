"""Disjoint sets, what is reached, connected parts and induced graphs, against networkx and plain sets."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st
from kits.grouping.grouping_graphs import Graph, graphs

from annotated_region.graphs import Dag, DisjointSets, connected_parts, reached


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
def test_disjoint_sets_agree_with_sets_of_sets(unions: list[tuple[int, int]]) -> None:
    sets = DisjointSets(8)
    model = [{item} for item in range(8)]
    for kept, gone in unions:
        before = sets.find(kept)
        assert sets.unite(kept, gone) == before
        joined = model[kept] | model[gone]
        for item in joined:
            model[item] = joined
    for item in range(8):
        assert {other for other in range(8) if sets.find(other) == sets.find(item)} == model[item]
        assert sets.find(item) in model[item]


@given(graphs(), st.data())
def test_what_is_reached_is_what_networkx_says(graph: Graph, data: st.DataObject) -> None:
    successors = graph[0]
    starts = data.draw(st.lists(st.integers(0, len(successors) - 1), unique=True))
    network = nx.DiGraph(dict(enumerate(successors)))
    expected = set(starts).union(*(nx.descendants(network, start) for start in starts))
    found = list(reached(starts, successors.__getitem__))
    assert set(found) == expected
    assert found[: len(starts)] == starts


@given(graphs(), st.data())
def test_parts_are_those_of_networkx_in_the_order_given(graph: Graph, data: st.DataObject) -> None:
    dag = Dag(graph[0])
    vertices = data.draw(st.lists(st.integers(0, len(dag) - 1), unique=True))
    neighbours = nx.Graph(dict(enumerate(graph[0]))).adj
    found = list(connected_parts(vertices, neighbours.__getitem__))
    expected = nx.connected_components(nx.Graph(dict(enumerate(graph[0]))).subgraph(vertices))
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))
    rank = {vertex: index for index, vertex in enumerate(vertices)}
    assert all([rank[v] for v in part] == sorted(rank[v] for v in part) for part in found)
    assert [rank[part[0]] for part in found] == sorted(rank[part[0]] for part in found)


@given(graphs(), st.data())
def test_an_induced_graph_has_the_edges_between_its_vertices(graph: Graph, data: st.DataObject) -> None:
    dag = Dag(graph[0])
    vertices = data.draw(st.lists(st.integers(0, len(dag) - 1), unique=True))
    induced = dag.induced(vertices)
    found = {
        (vertices[tail], vertices[head]) for tail, heads in enumerate(induced.successors) for head in heads
    }
    assert found == set(nx.DiGraph(dict(enumerate(graph[0]))).subgraph(vertices).edges)
