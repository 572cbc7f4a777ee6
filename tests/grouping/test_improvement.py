"""Joining, splitting, refining and the exact search: each leaves a valid grouping and does its part."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kits.grouping.grouping_graphs import Graph, graphs, layered
from kits.grouping.grouping_oracle import fewest_groups, is_connected, is_valid, tvm_style

from annotated_region.graphs import Dag
from annotated_region.grouping import ColourLimits
from annotated_region.grouping.components import parts
from annotated_region.grouping.exact import improve
from annotated_region.grouping.joining import join
from annotated_region.grouping.problem import GroupingProblem, Partition
from annotated_region.grouping.program_order import greedy
from annotated_region.grouping.refining import refine
from annotated_region.grouping.splitting import split


def problem_of(graph: Graph, limits: ColourLimits) -> GroupingProblem:
    return GroupingProblem.of(Dag(graph[0]), graph[1], None, dict.fromkeys(range(3), limits), ())


def alone(problem: GroupingProblem) -> Partition:
    return [[vertex] for vertex in problem.coloured()]


def assert_grouping(problem: GroupingProblem, partition: Partition) -> None:
    """Every coloured vertex once, groups valid, accepted, connected where that is asked for."""
    successors = [list(targets) for targets in problem.dag.successors]
    assert sorted(v for members in partition for v in members) == sorted(problem.coloured())
    assert is_valid(successors, partition)
    for members in partition:
        limits = problem.limits_of(members[0])
        assert len({problem.colours[vertex] for vertex in members}) == 1
        assert len(members) == 1 or problem.accepts(members)
        assert not limits.connected or is_connected(successors, members)


LIMITS = [
    ColourLimits(),
    ColourLimits(connected=True),
    ColourLimits(max_weight=3),
    ColourLimits(connected=True, max_weight=2),
    ColourLimits(accept=lambda members: sum(members) % 3 > 0 or "divisible by three"),
]


@pytest.mark.parametrize("limits", LIMITS)
def test_joining_single_vertices_keeps_every_limit(limits: ColourLimits) -> None:
    @given(graphs(most=12, colours=2))
    def holds(graph: Graph) -> None:
        problem = problem_of(graph, limits)
        joined = join(problem, alone(problem))
        assert_grouping(problem, joined)
        place = {v: index for index, members in enumerate(joined) for v in members}
        assert all(
            place[v] <= place[target] for v in place for target in graph[0][v] if target in place
        )  # in a topological order

    holds()


def test_joining_absorbs_what_stood_between() -> None:
    # 0 -> 2 is blocked by 1 until 1 has joined one of them
    problem = problem_of(([[2, 1], [2], []], [0, 0, 0]), ColourLimits(connected=True))
    assert join(problem, alone(problem)) == [[0, 1, 2]]


@pytest.mark.parametrize("limits", LIMITS[2:])
def test_splitting_leaves_accepted_pieces(limits: ColourLimits) -> None:
    @given(graphs(most=12))
    def holds(graph: Graph) -> None:
        successors, _ = graph
        problem = problem_of((successors, [0] * len(successors)), limits)
        whole = parts(problem.dag, problem.topological) if limits.connected else [problem.topological]
        assert_grouping(problem, split(problem, whole))

    holds()


def test_splitting_a_long_chain_asks_about_few_vertices() -> None:
    asked = 0

    def accept(members: list[int]) -> bool | str:
        nonlocal asked
        asked += len(members)
        return len(members) <= 10 or "ten at most"

    size = 2000
    graph: Graph = ([*([v + 1] for v in range(size - 1)), []], [0] * size)
    pieces = split(
        problem := problem_of(graph, ColourLimits(True, accept=accept)),
        [problem_of(graph, LIMITS[0]).topological],
    )
    assert_grouping(problem, pieces)
    assert len(pieces) == size // 10
    assert asked < 12 * size


@pytest.mark.parametrize("limits", LIMITS[1:])
def test_refining_never_makes_it_worse(limits: ColourLimits) -> None:
    @given(graphs(most=12, colours=2))
    def holds(graph: Graph) -> None:
        problem = problem_of(graph, limits)
        for start in (alone(problem), join(problem, alone(problem))):
            refined = refine(problem, start)
            assert_grouping(problem, refined)
            assert len(refined) <= len(start)

    holds()


def test_refining_saves_groups_that_greedy_joins_do_not() -> None:
    saved = 0
    for seed in range(6):
        problem = problem_of(layered(Random(seed), 12, 12), ColourLimits(connected=True))
        joined = join(problem, alone(problem))
        refined = refine(problem, joined)
        assert_grouping(problem, refined)
        saved += len(joined) - len(refined)
    assert saved >= 6


@pytest.mark.parametrize("limits", LIMITS)
def test_the_exact_search_finds_the_optimum_from_anywhere(limits: ColourLimits) -> None:
    @given(graphs(most=8, colours=2))
    def holds(graph: Graph) -> None:
        problem = problem_of(graph, limits)
        found, proved = improve(problem, alone(problem))
        assert_grouping(problem, found)
        limit = problem.accepts
        optimum = fewest_groups(*graph, limits.connected, limit)
        assert len(found) == optimum
        assert proved or not problem.coloured()

    holds()


def test_joining_fills_groups_to_their_limit() -> None:
    problem = problem_of(([[1], [2], [3], []], [0] * 4), ColourLimits(max_weight=2))
    assert join(problem, alone(problem)) == [[0, 1], [2, 3]]


def test_the_exact_search_gives_up_on_graphs_that_are_too_large() -> None:
    problem = problem_of(layered(Random(0), 8, 9), ColourLimits(connected=True))
    start = alone(problem)
    assert improve(problem, start) == (start, False)


def test_the_exact_search_stops_at_its_budget() -> None:
    # sixteen vertices without edges, pairs at most: far too many subsets to try
    problem = problem_of(([[] for _ in range(16)], [0] * 16), ColourLimits(max_weight=2))
    start = alone(problem)
    found, proved = improve(problem, start)
    assert_grouping(problem, found)
    assert not proved


@given(graphs(most=10, colours=1), st.data())
def test_parts_are_the_components_of_a_group(graph: Graph, data: st.DataObject) -> None:
    dag = Dag(graph[0])
    members = data.draw(st.lists(st.sampled_from(range(len(dag))), unique=True, min_size=1))
    found = parts(dag, members)
    assert sorted(v for part in found for v in part) == sorted(members)
    assert all(is_connected(graph[0], part) for part in found)
    joined = [[*left, *right] for left, right in pairwise(found)]
    assert not any(is_connected(graph[0], pair) for pair in joined)


@given(graphs(most=12, colours=2))
def test_greedy_merging_agrees_with_the_peer_or_declines(graph: Graph) -> None:
    problem = problem_of(graph, ColourLimits(connected=True))
    found = greedy(problem)
    if any(target < vertex for vertex, targets in enumerate(graph[0]) for target in targets):
        assert found is None
        return
    peer = tvm_style(*graph)
    assert (found is None) == (not is_valid(graph[0], peer))
    if found is not None:
        assert_grouping(problem, found)
        assert sorted(map(sorted, found)) == sorted(peer)


@pytest.mark.parametrize("seed", range(20))
def test_greedy_merging_agrees_with_the_peer_on_layered_graphs(seed: int) -> None:
    graph = layered(Random(seed), 8, 8, colours=2)
    found = greedy(problem_of(graph, ColourLimits(connected=True)))
    peer = tvm_style(*graph)
    assert is_valid(graph[0], peer) == (found is not None)
    assert found is None or sorted(map(sorted, found)) == sorted(peer)
