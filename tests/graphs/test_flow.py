"""Maximum flow and minimum cut, against networkx and brute force."""

import itertools
import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated_region.graphs import FlowNetwork

Edges = list[tuple[int, int, int]]
SIZE = 5


def edges(size: int = SIZE) -> st.SearchStrategy[Edges]:
    """Edges with capacities; vertex `size` is the source, the next one the sink."""
    ends = st.integers(0, size + 1)
    return st.lists(st.tuples(ends, ends, st.integers(0, 5)), max_size=14)


def filled(listed: Edges) -> FlowNetwork:
    network = FlowNetwork(SIZE)
    for tail, head, capacity in listed:
        network.join(tail, head, capacity)
    return network


def cut_cost(listed: Edges, side: list[bool]) -> int:
    return sum(capacity for tail, head, capacity in listed if side[tail] and not side[head])


@given(edges())
def test_the_flow_is_that_of_networkx_and_both_cuts_cost_as_much(listed: Edges) -> None:
    network = filled(listed)
    flow = network.saturate()
    graph = nx.DiGraph()
    graph.add_nodes_from((network.source, network.sink))
    for tail, head, capacity in listed:
        known = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
        graph.add_edge(tail, head, capacity=known + capacity)
    assert flow == nx.maximum_flow_value(graph, network.source, network.sink)
    near_source = network.reached_from_source()
    near_sink = network.reaching_sink()
    assert cut_cost(listed, near_source) == flow == cut_cost(listed, [not each for each in near_sink])
    assert near_source[network.source]
    assert near_sink[network.sink]


@given(edges())
def test_the_sides_are_the_smallest_of_all_minimum_cuts(listed: Edges) -> None:
    network = filled(listed)
    flow = network.saturate()
    cuts = [
        [*inner, True, False]
        for inner in itertools.product([False, True], repeat=SIZE)
        if cut_cost(listed, [*inner, True, False]) == flow
    ]
    always_source = [all(column) for column in zip(*cuts, strict=True)]
    always_sink = [not any(column) for column in zip(*cuts, strict=True)]
    assert network.reached_from_source() == always_source
    assert network.reaching_sink() == always_sink


@pytest.mark.parametrize("heads", [(0,), (0, 1, 2)])
def test_a_fan_is_paid_once(heads: tuple[int, ...]) -> None:
    out = FlowNetwork(3)
    out.fan_out(out.source, heads, 4)
    into = FlowNetwork(3)
    into.fan_in(heads, into.sink, 4)
    for head in heads:
        out.join(head, out.sink, 3)
        into.join(into.source, head, 3)
    assert out.saturate() == into.saturate() == min(4, 3 * len(heads))


def test_a_flow_that_nothing_bounds_is_infinite() -> None:
    network = FlowNetwork(1)
    network.join(network.source, 0, math.inf)
    network.join(0, network.sink, math.inf)
    assert math.isinf(network.saturate())


def test_whole_numbers_stay_whole() -> None:
    network = filled([(SIZE, 0, 2**60 + 1), (0, SIZE + 1, 2**60 + 1)])
    assert network.saturate() == 2**60 + 1
