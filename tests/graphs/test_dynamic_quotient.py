"""Merges under a cycle check, against contraction from scratch."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kits.grouping.grouping_graphs import FAMILIES, Graph, graphs
from kits.grouping.grouping_oracle import is_valid, quotient_graph

from annotated_region.graphs import CycleError, Dag, DynamicQuotient


def merged(groups: list[tuple[int, ...]], left: int, right: int) -> list[tuple[int, ...]]:
    """The groups with those of two vertices joined."""
    joined = tuple(v for group in groups if left in group or right in group for v in group)
    return [*(group for group in groups if left not in group and right not in group), joined]


def is_path(successors: list[list[int]], groups: list[tuple[int, ...]], vertices: list[int]) -> bool:
    """Whether the groups of these vertices follow each other in the quotient graph."""
    quotient = quotient_graph(successors, groups)
    name = {vertex: min(group) for group in groups for vertex in group}
    return all(quotient.has_edge(name[tail], name[head]) for tail, head in pairwise(vertices))


@settings(max_examples=60, deadline=None)
@given(graphs(most=12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
@example(([[1, 2], [2], []], [0, 0, 0]), [(0, 2), (0, 1), (0, 2)])
def test_a_merge_is_done_if_it_is_valid_and_else_witnessed(
    graph: Graph, pairs: list[tuple[int, int]]
) -> None:
    successors = graph[0]
    quotient = DynamicQuotient(Dag(successors))
    for left, right in ((a % len(successors), b % len(successors)) for a, b in pairs):
        before = quotient.groups()
        valid = is_valid(successors, merged(before, left, right))
        expected = quotient.witness(left, right)
        path = quotient.merge(left, right)
        assert path == expected
        assert valid == (not path) == quotient.same(left, right)
        if path:
            assert quotient.groups() == before
            ends = ((left, right), (right, left))
            assert any(is_path(successors, before, [first, *path, last]) for first, last in ends)
        place = {vertex: index for index, group in enumerate(quotient.groups()) for vertex in group}
        assert all(place[v] <= place[target] for v, targets in enumerate(successors) for target in targets)


def test_the_witness_of_a_diamond_is_its_inner_vertex() -> None:
    quotient = DynamicQuotient(Dag([[1, 2], [2], []]))
    assert quotient.merge(0, 2) == [1]
    assert quotient.members(0) == (0,)
    assert quotient.merge(2, 1) == []
    assert quotient.merge(2, 0) == []
    assert quotient.members(0) == (0, 1, 2)
    assert quotient.size(1) == 3


def test_a_witness_may_pass_through_a_group_without_a_path_inside_it() -> None:
    quotient = DynamicQuotient(Dag([[1, 4], [], [3], [4], []]), [(1, 2)])  # 0 -> 1, 2 -> 3 -> 4, 0 -> 4
    assert quotient.merge(0, 4) == [1, 3]


def test_siblings_merge() -> None:
    quotient = DynamicQuotient(Dag([[2], [2], [], []]))
    assert quotient.merge(0, 1) == []
    assert quotient.members(1) == (0, 1)


def test_groups_that_need_each_other_from_the_start_are_refused() -> None:
    with pytest.raises(CycleError) as caught:
        DynamicQuotient(Dag([[1], [], [3], []]), [(0, 3), (1, 2)])
    assert caught.value.cycle == ((0, 3), (1, 2))


def test_a_merge_beyond_its_budget_is_left_undone() -> None:
    size = 50  # two parallel chains between 0 and the last vertex: no way round looking at one of them
    successors = [[1, size], *([v + 1] for v in range(1, size - 1)), [2 * size - 1]]
    successors += [*([v + 1] for v in range(size, 2 * size - 1)), []]
    quotient = DynamicQuotient(Dag(successors))
    assert not quotient.try_merge(1, 2 * size - 2, budget=3)
    assert quotient.try_merge(1, 2 * size - 2, budget=1000)
    assert not quotient.try_merge(0, 2 * size - 1, budget=1000)


@pytest.mark.parametrize("family", FAMILIES)
def test_merging_along_all_edges_looks_at_few_edges_for_each(family: str) -> None:
    def steps(size: int) -> float:
        successors, colours = FAMILIES[family](size)
        quotient = DynamicQuotient(Dag(successors))
        for vertex, targets in enumerate(successors):
            for target in targets:
                if colours[vertex] is not None and colours[vertex] == colours[target]:
                    quotient.merge(vertex, target)
        return quotient.steps / size

    assert steps(8000) < 1.3 * steps(1000) + 1
