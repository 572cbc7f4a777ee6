"""Waves, levels, refinement and beam search: positions that become groups."""

from random import Random

import pytest
from hypothesis import given
from kits.grouping.grouping_graphs import Graph, graphs, layered
from kits.grouping.grouping_oracle import fewest_groups, is_valid

from annotated_region.graphs import Dag
from annotated_region.grouping import ColourLimits
from annotated_region.grouping.beam import beam
from annotated_region.grouping.bounds import levels, lower_bound
from annotated_region.grouping.components import cut_runs
from annotated_region.grouping.problem import GroupingProblem
from annotated_region.grouping.refinement import crossings, refined
from annotated_region.grouping.waves import POLICIES, Positions, tails, turned, waves


def problem_of(graph: Graph, connected: bool = False) -> GroupingProblem:
    limits = {colour: ColourLimits(connected) for colour in range(3)}
    return GroupingProblem.of(Dag(graph[0]), graph[1], None, limits, ())


def assert_positions(graph: Graph, positions: Positions) -> None:
    """Runs in a linear order, each of one colour, every consumer in its producer's run or a later one."""
    successors, colours = graph
    assert [position < 0 for position in positions] == [colour is None for colour in colours]
    runs = [[v for v in range(len(colours)) if positions[v] == run] for run in range(max(positions) + 1)]
    assert all(len({colours[vertex] for vertex in run}) == 1 for run in runs)
    assert is_valid(successors, runs)


def test_levels_count_the_ways_back_from_the_host() -> None:
    # 0 -> 1 -> h2 -> 3 -> 4,  0 -> h5 -> h6 -> 4,  7 alone
    graph: Graph = ([[1, 5], [2], [3], [4], [], [6], [4], []], [0, 0, None, 0, 0, None, None, 0])
    problem = problem_of(graph)
    assert waves(problem, tails(problem), POLICIES[0]) == [0, 0, -1, 1, 1, -1, -1, 0]
    assert levels(problem, 0) == [1, 1, 1, 2, 2, 1, 1, 1]
    assert lower_bound(problem) == 2


@given(graphs())
def test_levels_of_one_colour_are_the_optimum(graph: Graph) -> None:
    problem = problem_of(graph)
    for side in (problem, problem.reversed()):
        positions = waves(side, tails(side), POLICIES[0])
        assert max(positions) + 1 == max(levels(side, 0)) == fewest_groups(*graph)
        assert_positions(graph, positions if side is problem else turned(positions))


@given(graphs(colours=3))
def test_every_policy_gives_valid_runs_not_below_the_bound(graph: Graph) -> None:
    problem = problem_of(graph)
    bound = lower_bound(problem)
    assert bound <= fewest_groups(*graph)
    found = [waves(problem, tails(problem), policy) for policy in POLICIES]
    found += [beam(problem, width) for width in (1, 4)]
    for positions in found:
        assert_positions(graph, positions)
        assert max(positions) + 1 >= bound


@given(graphs(most=9, colours=3))
def test_a_beam_wide_enough_is_optimal(graph: Graph) -> None:
    assert max(beam(problem_of(graph), 4000)) + 1 == fewest_groups(*graph)


def test_a_beam_beats_waves_on_three_colours() -> None:
    graph = layered(Random(0), 16, 16, colours=3)
    problem = problem_of(graph)
    assert max(beam(problem, 8)) < max(waves(problem, tails(problem), POLICIES[0]))


@pytest.mark.parametrize(
    ("graph", "bound"),
    [
        (([[1, 2], [2], []], [0, None, 0]), 2),  # one part that a path leaves and comes back to
        (([[1], [2], []], [0, None, 0]), 2),  # two parts
        (([[1, 2], [2], [3, 4], [4], []], [0, None, 0, None, 0]), 3),  # a part that is left twice
        (([[1, 2], [2, 3], [], [4, 5], [5], []], [0, None, 0, 0, None, 0]), 4),  # the levels of two parts
    ],
)
def test_the_bound_of_connected_groups_adds_up_over_parts(graph: Graph, bound: int) -> None:
    assert lower_bound(problem_of(graph, connected=True)) == bound == fewest_groups(*graph, connected=True)


@given(graphs(most=9, colours=2))
def test_the_bound_of_connected_groups_is_a_bound(graph: Graph) -> None:
    assert lower_bound(problem_of(graph, connected=True)) <= fewest_groups(*graph, connected=True)


def test_refinement_moves_a_vertex_to_its_only_consumer() -> None:
    # a -> host -> c and r -> c: r waits for nothing, but its value is used in the second run only
    graph: Graph = ([[1], [2], [], [2]], [0, None, 0, 0])
    problem = problem_of(graph)
    positions = waves(problem, tails(problem), POLICIES[0])
    assert positions == [0, -1, 1, 0]
    assert refined(problem, positions) == [0, -1, 1, 1]


def test_refinement_moves_a_vertex_to_its_only_producer() -> None:
    graph: Graph = ([[1, 3], [2], [], []], [0, None, 0, 0])
    assert refined(problem_of(graph), [0, -1, 1, 1]) == [0, -1, 1, 0]


def test_refinement_stops_at_a_host_that_feeds_an_earlier_run() -> None:
    # 0 -> h1 -> 2 and 0 -> 3, 2 -> h4 -> 3: vertex 0 has to stay before 2, though 3 uses it too
    graph: Graph = ([[1, 3], [2], [4], [], [3]], [0, None, 0, 0, None])
    assert refined(problem_of(graph), [0, -1, 1, 2, -1]) == [0, -1, 1, 2, -1]


@given(graphs(colours=2))
def test_refinement_keeps_the_runs_and_never_adds_a_crossing(graph: Graph) -> None:
    problem = problem_of(graph)
    before = waves(problem, tails(problem), POLICIES[0])
    after = refined(problem, before)
    assert_positions(graph, after)
    assert max(after) <= max(before)
    assert crossings(problem, after) <= crossings(problem, before)


def test_crossings_count_values_and_destinations_once() -> None:
    problem = problem_of(([[1, 2, 3, 4], [], [], [], []], [0, 0, 0, None, None]))
    assert crossings(problem, [0, 1, 1, -1, -1]) == 2
    assert crossings(problem, [0, 0, 0, -1, -1]) == 1


@pytest.mark.parametrize("connected", [False, True])
def test_runs_are_cut_into_parts_only_where_that_is_asked_for(connected: bool) -> None:
    problem = problem_of(([[1], [], [3], []], [0, 0, 0, 0]), connected)
    groups = [sorted(group) for group in cut_runs(problem, [0, 0, 0, 0])]
    assert groups == ([[0, 1], [2, 3]] if connected else [[0, 1, 2, 3]])
