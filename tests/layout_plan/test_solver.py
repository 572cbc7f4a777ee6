"""The planning engine against brute force, on generated problems."""

import random
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from annotated_region.layout_plan.families import family_choices
from annotated_region.layout_plan.frontier import search
from annotated_region.layout_plan.fusion import fuse
from annotated_region.layout_plan.problem import LayoutProblem, Option, evaluate
from annotated_region.layout_plan.solver import greedy, solve


def brute_force(problem):
    return min(evaluate(problem, choice) for choice in product(*(range(len(node)) for node in problem.nodes)))


@st.composite
def problems(draw, most_options=3, storages=3):
    values = draw(st.integers(1, 5))
    weights = tuple(draw(st.lists(st.integers(0, 9), min_size=values, max_size=values)))
    nodes = []
    for _ in range(draw(st.integers(1, 6))):
        used = draw(st.lists(st.integers(0, values - 1), max_size=3, unique=True))
        one_use = st.lists(st.integers(0, storages - 1), min_size=1, max_size=2, unique=True)
        uses = st.tuples(*(one_use for _ in used)).map(
            lambda rows, used=used: frozenset((v, s) for v, row in zip(used, rows, strict=True) for s in row)
        )
        options = st.lists(st.builds(Option, uses, st.integers(0, 3)), min_size=1, max_size=most_options)
        nodes.append(draw(options.map(tuple)))
    return LayoutProblem(weights, tuple(nodes))


@st.composite
def networks(draw, labels=2):
    """Ops that run wholly in one layout, some of them pinned, with values between them."""
    size = draw(st.integers(2, 9))
    edges = st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), min_size=1, max_size=14)
    touched = [[node] for node in range(size)]  # the value that a node makes has its number
    for tail, head in draw(edges):
        if tail < head:
            touched[head].append(tail)
    weights = tuple(draw(st.lists(st.integers(1, 50), min_size=size, max_size=size)))
    nodes = []
    for values in touched:
        pinned = draw(st.sampled_from([None, None, *range(labels)]))
        choice = range(labels) if pinned is None else [pinned]
        nodes.append(tuple(Option(frozenset((v, label) for v in values), int(label > 0)) for label in choice))
    return LayoutProblem(weights, tuple(nodes))


@pytest.mark.campaign
@given(problems())
def test_the_plan_is_the_best_of_all(problem):
    solution = solve(problem)
    assert evaluate(problem, solution.choice) == solution.cost == solution.lower_bound == brute_force(problem)


@pytest.mark.campaign
@given(networks(labels=3))
def test_the_plan_of_a_network_is_the_best_of_all(problem):
    solution = solve(problem)
    assert evaluate(problem, solution.choice) == solution.cost == solution.lower_bound == brute_force(problem)


@pytest.mark.campaign
@given(problems(), st.integers(1, 3))
def test_a_narrow_search_still_gives_a_plan_and_a_true_bound(problem, width):
    solution, best = solve(problem, width), brute_force(problem)
    assert evaluate(problem, solution.choice) == solution.cost
    assert solution.lower_bound <= best <= solution.cost


@pytest.mark.campaign
@given(networks())
def test_with_two_layouts_one_move_is_exact(problem):
    families = family_choices(problem, greedy(problem))
    assume(len(families) == 2)
    fusion = fuse(problem, *families)
    assert fusion.is_exact
    assert fusion.cost == evaluate(problem, fusion.choice) == brute_force(problem)


@pytest.mark.campaign
@given(problems(), st.data())
def test_a_mixture_is_no_worse_than_what_it_is_made_of(problem, data):
    one, other = (tuple(data.draw(st.integers(0, len(node) - 1)) for node in problem.nodes) for _ in range(2))
    fusion = fuse(problem, one, other)
    assert all(taken in pair for taken, pair in zip(fusion.choice, zip(one, other, strict=True), strict=True))
    mixtures = [evaluate(problem, mixture) for mixture in product(*zip(one, other, strict=True))]
    assert (
        fusion.cost
        == evaluate(problem, fusion.choice)
        <= min(evaluate(problem, one), evaluate(problem, other))
    )
    assert not fusion.is_exact or fusion.cost == min(mixtures)


def test_a_storage_that_is_in_use_either_way_is_no_reason_to_stay_or_to_move():
    one = (Option(frozenset({(0, 0)}), 3), Option(frozenset({(0, 1)})))
    other = (Option(frozenset({(0, 0)}), 5), Option(frozenset({(0, 0)})), Option(frozenset({(0, 1)}), 9))
    fusion = fuse(LayoutProblem((10,), (one, other)), (0, 0), (1, 1))
    assert fusion.choice == (0, 1)
    assert fusion.is_exact


def test_a_storage_that_one_leaves_and_another_enters_makes_the_move_a_guess():
    one = (Option(frozenset({(0, 0)})), Option(frozenset({(0, 1)})))
    other = (Option(frozenset({(0, 1)})), Option(frozenset({(0, 0)})))
    fusion = fuse(LayoutProblem((10,), (one, other)), (0, 0), (1, 1))
    assert not fusion.is_exact
    assert fusion.cost == 10


@pytest.mark.campaign
@given(problems())
def test_families_cover_every_option(problem):
    families = family_choices(problem, greedy(problem))
    for node in problem.free:
        assert {family[node] for family in families} == set(range(len(problem.nodes[node])))


def wide(size, seed):
    """Two layers, each node of the second reading many of the first: all values are live at once."""
    generator = random.Random(seed)
    values = range(size)
    makers = [
        tuple(Option(frozenset({(v, label)}), generator.randint(0, 9)) for label in (0, 1)) for v in values
    ]
    readers = []
    for _ in values:
        read = generator.sample(values, size // 2)
        readers.append(
            tuple(Option(frozenset((v, label) for v in read), generator.randint(0, 40)) for label in (0, 1))
        )
    return LayoutProblem(tuple(generator.randint(5, 9) for _ in values), (*makers, *readers))


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_graph_of_two_layouts_is_planned_exactly_without_width(seed):
    problem = wide(9, seed)
    exact = search(problem, 10**6, 10**6)
    assert exact.choice is not None
    solution = solve(problem, width=2)
    assert solution.cost == solution.lower_bound == exact.lower_bound
    larger = solve(wide(40, seed), width=2)
    assert larger.cost == larger.lower_bound


def test_the_search_cuts_its_frontier_where_that_is_too_wide():
    cut, known = search(wide(9, 0), 10**6, 2), solve(wide(9, 0)).cost
    assert cut.choice is None
    assert 0 < cut.lower_bound <= known


def test_a_copy_is_paid_once_for_all_who_read_it():
    reads = (Option(frozenset({(0, 1)})),)
    assert (
        evaluate(LayoutProblem((10,), ((Option(frozenset({(0, 0)})),), reads, reads, reads)), (0, 0, 0, 0))
        == 10
    )


@pytest.mark.parametrize(
    ("weights", "nodes", "message"),
    [
        ((1,), ((),), "without options"),
        ((-1,), ((Option(frozenset()),),), "not negative"),
        ((1,), ((Option(frozenset({(1, 0)})),),), "no weight"),
        ((1,), ((Option(frozenset({(0, 0)})), Option(frozenset())),), "different values"),
    ],
)
def test_what_is_no_problem_is_refused(weights, nodes, message):
    with pytest.raises(ValueError, match=message):
        LayoutProblem(weights, nodes)
