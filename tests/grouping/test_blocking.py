"""The vertex that keeps two groups apart."""

import networkx as nx
import pytest
from hypothesis import given
from kits.grouping.grouping_graphs import Graph, graphs, six_op_orders, six_ops
from kits.grouping.grouping_oracle import is_valid, quotient_graph

from annotated_region.graphs import CycleError, Dag
from annotated_region.grouping import Blockers, ColourLimits, blocker, group

CONNECTED = {0: ColourLimits(connected=True), 1: ColourLimits(connected=True)}


def test_a_host_vertex_on_the_path_is_named() -> None:
    dag = Dag([[1, 3], [2], [3], []])  # 0 -> 1 -> 2 -> 3 and 0 -> 3; 0, 1 and 3 coloured
    assert blocker(dag, [(0, 1), (3,)], 0, 1) == 2
    assert blocker(dag, [(0, 1), (3,)], 1, 0) == 2


def test_a_host_vertex_is_named_before_one_of_another_group() -> None:
    dag = Dag([[1], [2], [3], []])
    assert blocker(dag, [(0,), (1,), (3,)], 0, 2) == 2


def test_where_only_another_group_is_between_its_entry_is_named() -> None:
    dag = Dag([[2], [], [3], []])  # 0 -> 2 -> 3, and 1 in one group with 2
    assert blocker(dag, [(0,), (1, 2), (3,)], 0, 2) == 2
    assert blocker(dag, [(0,), (1, 2), (3,)], 2, 0) == 2


def test_nothing_stands_between_groups_that_a_limit_keeps_apart() -> None:
    dag = Dag([[1], [2], []])
    assert blocker(dag, [(0, 1), (2,)], 0, 1) is None
    assert blocker(dag, [(0,), (2,)], 0, 0) is None


def test_an_invalid_grouping_is_refused() -> None:
    with pytest.raises(CycleError, match="the graph has a cycle"):
        Blockers(Dag([[1], [2], []]), [(0, 2)])


@pytest.mark.parametrize("names", six_op_orders(), ids="-".join)
def test_tanh_stands_between_the_crossing_gates(names: tuple[str, ...]) -> None:
    successors, colours = six_ops(names)
    groups = group(Dag(successors), colours).groups
    between = blocker(Dag(successors), groups, 0, 1)
    assert between is not None
    assert names[between] in ("X", "Y")


@given(graphs(most=10, colours=2))
def test_a_blocker_is_on_a_path_and_its_absence_means_that_joining_is_valid(graph: Graph) -> None:
    dag = Dag(graph[0])
    groups = group(dag, graph[1], limits=CONNECTED, effort=0).groups
    blockers = Blockers(dag, groups)
    quotient = quotient_graph(graph[0], groups)
    block_of = {v: min(members) for members in groups for v in members}
    for left, right in ((a, b) for a in range(len(groups)) for b in range(len(groups)) if a != b):
        others = [members for index, members in enumerate(groups) if index not in (left, right)]
        valid = is_valid(graph[0], [*others, groups[left] + groups[right]])
        between = blockers.between(left, right)
        assert valid == (between is None)
        if between is not None:
            middle = block_of.get(between, between)
            ends = (groups[left][0], groups[right][0])
            assert middle not in ends
            assert any(
                reaches(quotient, first, middle) and reaches(quotient, middle, last)
                for first, last in (ends, ends[::-1])
            )


def reaches(quotient: nx.DiGraph, first: int, last: int) -> bool:
    """Whether a path leads from one block to another."""
    return bool(nx.has_path(quotient, first, last))
