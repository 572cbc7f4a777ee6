"""The laws of `group`: always valid, as few groups as brute force finds, limits respected."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.grouping.grouping_graphs import FAMILIES, Graph, graphs, layered, six_op_orders, six_ops
from kits.grouping.grouping_oracle import (
    fewest_by_partitions,
    fewest_groups,
    is_connected,
    is_valid,
    kahn_waves,
    tvm_style,
)

from annotated_region.graphs import CycleError, Dag, program_order
from annotated_region.grouping import ColourLimits, Grouping, engine, group
from annotated_region.grouping.problem import GroupingProblem
from annotated_region.grouping.refining import _Arrangement

EXAMPLES = int(os.environ.get("AR_CAMPAIGN_EXAMPLES", "100"))
campaign = settings(max_examples=EXAMPLES, deadline=None)

CONNECTED = {colour: ColourLimits(connected=True) for colour in range(3)}


def check(graph: Graph, grouping: Grouping, limits: Mapping[int, ColourLimits]) -> None:
    """Everything that holds of any answer."""
    successors, colours = graph
    inside = [vertex for members in grouping.groups for vertex in members]
    assert sorted([*inside, *grouping.left_over]) == [
        v for v, colour in enumerate(colours) if colour is not None
    ]
    assert list(grouping.groups) == sorted(tuple(sorted(members)) for members in grouping.groups)
    for index, members in enumerate(grouping.groups):
        assert len({colours[vertex] for vertex in members}) == 1
        assert all(grouping.group_of[vertex] == index for vertex in members)
        assert not limits.get(colours[members[0]] or 0, ColourLimits()).connected or is_connected(
            successors, members
        )
    assert sum(place is not None for place in grouping.group_of) == len(inside)
    assert is_valid(successors, grouping.groups)
    assert grouping.lower_bound <= len(grouping.groups)


@pytest.mark.parametrize("colours", [1, 2, 3])
@pytest.mark.parametrize("connected", [False, True])
def test_the_fewest_groups_that_brute_force_finds(colours: int, connected: bool) -> None:
    limits = CONNECTED if connected else {}

    @campaign
    @given(graphs(most=9, colours=colours))
    def holds(graph: Graph) -> None:
        grouping = group(Dag(graph[0]), graph[1], limits=limits)
        check(graph, grouping, limits)
        optimum = fewest_groups(*graph, connected)
        assert grouping.lower_bound <= optimum == len(grouping.groups)

    holds()


@campaign
@given(graphs(colours=2), st.booleans(), st.booleans())
def test_one_colour_may_have_to_be_connected_and_the_other_not(
    graph: Graph, first: bool, second: bool
) -> None:
    limits = {0: ColourLimits(connected=first), 1: ColourLimits(connected=second)}
    grouping = group(Dag(graph[0]), graph[1], limits=limits)
    check(graph, grouping, limits)
    counts = [len(group(Dag(graph[0]), graph[1], limits=free).groups) for free in ({}, CONNECTED)]
    assert counts[0] <= len(grouping.groups) <= counts[1]


@campaign
@given(graphs(most=8, colours=2), st.booleans(), st.integers(1, 3))
def test_a_weight_limit_is_respected_at_the_least_price(graph: Graph, connected: bool, most: int) -> None:
    limits = {colour: ColourLimits(connected, max_weight=most) for colour in range(2)}
    grouping = group(Dag(graph[0]), graph[1], limits=limits)
    check(graph, grouping, limits)
    assert all(len(members) <= most for members in grouping.groups)
    assert len(grouping.groups) == fewest_groups(*graph, connected, lambda members: len(members) <= most)


@campaign
@given(graphs(most=8), st.booleans(), st.integers(2, 5))
def test_a_refused_group_is_not_formed(graph: Graph, connected: bool, divisor: int) -> None:
    def agrees(members: list[int]) -> bool | str:
        return len(members) == 1 or sum(members) % divisor > 0 or "the sum is not to my taste"

    limits = {0: ColourLimits(connected, accept=agrees)}
    grouping = group(Dag(graph[0]), graph[1], limits=limits)
    check(graph, grouping, limits)
    assert all(agrees(list(members)) is True for members in grouping.groups)
    assert not grouping.left_over
    optimum = fewest_groups(*graph, connected, lambda members: agrees(members) is True)
    assert len(grouping.groups) == optimum


@given(graphs(most=12, colours=2), st.integers(0, 2), st.integers(0, 2))
def test_strategies_without_the_exact_search_are_valid_too(graph: Graph, effort: int, most: int) -> None:
    limits = {colour: ColourLimits(colour == 0, max_weight=most or None) for colour in range(2)}
    grouping = group(Dag(graph[0]), graph[1], limits=limits, effort=effort)
    check(graph, grouping, limits)
    assert all(len(members) <= (most or 12) for members in grouping.groups)


@settings(max_examples=30, deadline=None)
@given(graphs(most=6, colours=2), st.booleans())
def test_the_brute_force_agrees_with_a_simpler_one(graph: Graph, connected: bool) -> None:
    assert fewest_groups(*graph, connected) == fewest_by_partitions(*graph, connected)


@pytest.mark.parametrize("names", six_op_orders(), ids="-".join)
def test_crossing_gates_are_valid_in_every_binding_order(names: tuple[str, ...]) -> None:
    successors, colours = six_ops(names)
    grouping = group(Dag(successors), colours)
    assert [{names[v] for v in members} for members in grouping.groups] in (
        [{"A1", "A2"}, {"B1", "B2"}],
        [{"B1", "B2"}, {"A1", "A2"}],
    )
    connected = group(Dag(successors), colours, limits=CONNECTED)
    check((successors, colours), connected, CONNECTED)
    assert len(connected.groups) == 3


def test_tvm_style_merging_breaks_the_crossing_gates() -> None:
    broken = [
        names for names in six_op_orders() if not is_valid(six_ops(names)[0], tvm_style(*six_ops(names)))
    ]
    assert (len(broken), len(six_op_orders())) == (12, 18)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("width", "depth"), [(4, 6), (8, 8), (16, 16)])
def test_never_more_groups_than_the_peers(width: int, depth: int, seed: int) -> None:
    graph = layered(Random(seed), width, depth)
    siblings = group(Dag(graph[0]), graph[1])
    check(graph, siblings, {})
    assert len(siblings.groups) <= kahn_waves(*graph)
    connected = group(Dag(graph[0]), graph[1], limits=CONNECTED)
    check(graph, connected, CONNECTED)
    peer = tvm_style(*graph)
    assert len(connected.groups) <= len(peer) or not is_valid(graph[0], peer)


@pytest.mark.parametrize("seed", range(12))
def test_never_more_groups_than_kahn_waves_of_several_colours(seed: int) -> None:
    graph = layered(Random(seed), 8, 8, colours=3)
    grouping = group(Dag(graph[0]), graph[1])
    check(graph, grouping, {})
    assert len(grouping.groups) <= kahn_waves(*graph)


def test_weights_count_and_a_heavy_vertex_stands_alone() -> None:
    limits = {0: ColourLimits(max_weight=4)}
    weights = [9, 2, 2, 1]
    grouping = group(Dag([[], [], [], []]), [0, 0, 0, 0], weights, limits)
    assert grouping.groups[0] == (0,)
    assert [sum(weights[vertex] for vertex in members) <= 4 for members in grouping.groups[1:]] == [
        True,
        True,
    ]
    assert grouping.lower_bound == 3


def test_fixed_groups_stay_whole() -> None:
    dag = Dag([[2], [3], [], [], []])
    grouping = group(dag, [0, None, None, 0, 0], limits=CONNECTED, fixed=[(0, 3), (4,)])
    assert grouping.groups == ((0, 3), (4,))
    heavy = group(dag, [0, None, None, 0, 0], None, {0: ColourLimits(max_weight=2)}, fixed=[(0, 3)])
    assert heavy.groups == ((0, 3), (4,))


def test_fixed_groups_that_need_each_other_are_refused() -> None:
    with pytest.raises(CycleError, match=r"\{0, 3\} -> \{1, 2\} -> \{0, 3\}"):
        group(Dag([[1], [], [3], []]), [0, 0, 0, 0], fixed=[(0, 3), (2, 1)])


def test_a_cyclic_graph_is_refused() -> None:
    with pytest.raises(CycleError, match="0 -> 1 -> 0"):
        group(Dag([[1], [0]]), [None, 0])


def test_a_fixed_group_has_one_colour() -> None:
    with pytest.raises(ValueError, match=r"the fixed group \(0, 1\) holds more than one colour"):
        group(Dag([[], []]), [0, 1], fixed=[(0, 1)])


def test_every_vertex_needs_a_colour_and_a_weight() -> None:
    with pytest.raises(ValueError, match="2 vertices need as many colours and weights"):
        group(Dag([[], []]), [0])
    with pytest.raises(ValueError, match="2 vertices need as many colours and weights"):
        group(Dag([[], []]), [0, 0], [1])


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="max_weight is 0"):
        ColourLimits(max_weight=0)
    with pytest.raises(ValueError, match="max_groups is -1"):
        ColourLimits(max_groups=-1)


def test_the_heaviest_groups_stay_when_only_so_many_may() -> None:
    successors = [[1], [2], [3], [4], []]  # alternating colours: three groups of 0
    limits = {0: ColourLimits(max_groups=2)}
    grouping = group(Dag(successors), [0, None, 0, None, 0], [1, 1, 5, 1, 1], limits)
    assert grouping.groups == ((0,), (2,))
    assert dict(grouping.left_over) == {4: None}
    assert grouping.group_of == (0, None, 1, None, None)
    assert grouping.lower_bound == 2
    none = group(Dag(successors), [0, None, 0, None, 0], limits={0: ColourLimits(max_groups=0)})
    assert none.groups == ()
    assert list(none.left_over) == [0, 2, 4]


def test_a_vertex_that_is_refused_alone_is_left_over_with_the_reason() -> None:
    def accept(members: list[int]) -> bool | str:
        return 1 not in members or "1 is too much for me"

    grouping = group(Dag([[1], [2], []]), [0, 0, 0], limits={0: ColourLimits(accept=accept)})
    assert dict(grouping.left_over) == {1: "1 is too much for me"}
    check(([[1], [2], []], [0, 0, 0]), grouping, {})
    assert grouping.groups == ((0,), (2,))


def test_a_group_may_be_accepted_although_its_parts_are_not() -> None:
    def accept(members: list[int]) -> bool | str:
        return len(members) >= 3 or "too small to be worth a launch"

    grouping = group(Dag([[1], [2], [], []]), [0, 0, 0, None], limits={0: ColourLimits(accept=accept)})
    assert grouping.groups == ((0, 1, 2),)
    assert not grouping.left_over


def test_a_predicate_is_asked_about_each_vertex_a_bounded_number_of_times() -> None:
    asked = 0

    def accept(members: list[int]) -> bool | str:
        nonlocal asked
        asked += len(members)
        return len(members) <= 100 or "too many"

    def asked_for_each(size: int) -> float:
        nonlocal asked
        asked = 0
        # a chain of `size` with a leaf at every vertex: every leaf would like to join the big groups
        successors = [[vertex + 1, size + vertex] for vertex in range(size)] + [[] for _ in range(size)]
        successors[size - 1] = [2 * size - 1]
        graph: Graph = (successors, [0] * (2 * size))
        limits = {0: ColourLimits(True, accept=accept)}
        grouping = group(Dag(successors), graph[1], limits=limits)
        check(graph, grouping, limits)
        assert max(map(len, grouping.groups)) <= 100
        assert len(grouping.groups) <= 1.1 * 2 * size / 100
        return asked / size

    assert asked_for_each(2000) < 100


def test_several_colours_are_refined_after_joins() -> None:
    # 0 is ready at once, but used by the last group only, which comes after one of the other colour
    graph: Graph = ([[3], [2, 4], [3], [], [2]], [0, 0, None, 0, 1])
    grouping = group(Dag(graph[0]), graph[1])
    check(graph, grouping, {})
    assert grouping.groups == ((0, 3), (1,), (4,))


def test_nothing_to_group() -> None:
    for dag, colours in ((Dag([]), []), (Dag([[1], []]), [None, None])):
        grouping = group(dag, colours)
        assert (grouping.groups, grouping.lower_bound) == ((), 0)
        assert program_order(dag, grouping.groups) == [(vertex,) for vertex in range(len(dag))]


def test_large_graphs_take_the_short_way_and_stay_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_SMALL", 0)
    for family in FAMILIES.values():
        graph = family(2000)
        for limits in ({}, CONNECTED):
            grouping = group(Dag(graph[0]), graph[1], limits=limits)
            program_order(Dag(graph[0]), grouping.groups)
            assert grouping.lower_bound <= len(grouping.groups) <= sum(c is not None for c in graph[1])


def work(graph: Graph, limits: Mapping[int, ColourLimits]) -> int:
    """The function calls that grouping makes: a measure of time that is the same on every machine."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    dag = Dag(graph[0])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        group(dag, graph[1], limits=limits, effort=0)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("limits", [{}, CONNECTED], ids=["siblings", "connected"])
def test_work_grows_linearly(
    family: str, limits: Mapping[int, ColourLimits], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SMALL", 0)  # both sizes by the strategies for large graphs
    small, large = (work(FAMILIES[family](size), limits) for size in (1000, 8000))
    assert large < 8**1.1 * small


def test_refining_stops_at_a_fixed_amount_of_work() -> None:
    def calls(size: int) -> int:
        graph = FAMILIES["layered"](size)
        problem = GroupingProblem.of(Dag(graph[0]), graph[1], None, CONNECTED, ())
        arrangement = _Arrangement(problem, [[vertex] for vertex in problem.coloured()])
        arrangement.sweep(2000)
        return arrangement.work

    assert calls(8000) < 1.1 * calls(4000) < 3000


def test_the_answer_is_the_same_under_every_hash_seed() -> None:
    code = (
        "from random import Random; from kits.grouping.grouping_graphs import layered\n"
        "from annotated_region.graphs import Dag\n"
        "from annotated_region.grouping import *\n"
        "graph = layered(Random(7), 8, 8, colours=2)\n"
        "limits = {0: ColourLimits(connected=True), 1: ColourLimits(max_weight=5)}\n"
        "print(group(Dag(graph[0]), graph[1], limits=limits))"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    graph = layered(Random(7), 8, 8, colours=2)
    limits = {0: ColourLimits(connected=True), 1: ColourLimits(max_weight=5)}
    assert there == f"{group(Dag(graph[0]), graph[1], limits=limits)}\n"


@pytest.mark.parametrize("limit", [1, 2, 7, 30])
@pytest.mark.parametrize("connected", [False, True])
def test_weight_limits_hold_on_graphs_too_large_for_the_exact_search(limit: int, connected: bool) -> None:
    graph = layered(Random(1), 8, 12)
    limits = {0: ColourLimits(connected, max_weight=limit)}
    grouping = group(Dag(graph[0]), graph[1], limits=limits)
    check(graph, grouping, limits)
    assert max(map(len, grouping.groups)) <= limit
    assert len(grouping.groups) <= (1.7 if connected else 1.3) * grouping.lower_bound
