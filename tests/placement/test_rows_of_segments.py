"""Rows of equal segments: the optimum and its proof, within limits too, and work that size does not raise."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.placement import placement_oracle
from kits.placement.placement_problems import of_edges, random_problem, uniform_table
from kits.placement.placement_rows import BYTES, random_row, residual_row, with_limits

from annotated_region.errors import PinError
from annotated_region.placement import TargetLimits, Uses, evaluate, row_prices, segments, solve
from annotated_region.placement.greedy import within_limits
from annotated_region.placement.incumbent import Incumbent
from annotated_region.placement.prices import Prices
from annotated_region.placement.row_prices import solve_limited_row
from annotated_region.placement.segment_solver import SegmentRow, row_of
from annotated_region.placement.segments import Tariff, segments_of
from annotated_region.placement.starts import starting_placements

LARGE = 125


def nodes_of_segments(edges, nodes, **changes):
    problem = of_edges(nodes, edges, [1.0], [[1.0, 2.0]] * nodes, uniform_table(1, 1.0))
    return [list(segment.nodes) for segment in segments_of(replace(problem, **changes))]


TWICE_FORKED = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)]


def test_the_row_of_the_picture():
    assert nodes_of_segments(TWICE_FORKED, 7) == [[0], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("edges", "nodes", "segments"),
    [
        ([(0, 1), (1, 2), (0, 2)], 3, [[0], [1, 2]]),
        # A node that nothing reads may share a region with a later one: no cut behind it.
        ([(0, 1), (0, 2), (2, 3)], 4, [[0], [1, 2, 3]]),
        # So may one that reads nothing: no cut before it.
        ([(0, 1), (1, 3), (2, 3), (3, 4)], 5, [[0, 1, 2, 3], [4]]),
    ],
)
def test_what_cuts_a_network(edges, nodes, segments):
    assert nodes_of_segments(edges, nodes) == segments


def test_what_all_layers_read_cuts_no_network_in_one_piece(monkeypatch):
    """As a mask of attention is read; next to that, shortcuts keep their blocks whole."""
    masked = [(node, node + 1) for node in range(5)] + [(0, node) for node in range(2, 6)]
    monkeypatch.setattr(segments, "FAR", 2)
    assert nodes_of_segments(masked, 6) == [[0], [1], [2], [3], [4], [5]]
    assert nodes_of_segments([*masked, (1, 3)], 6) == [[0], [1], [2, 3], [4], [5]]


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.booleans())
def test_a_row_costs_what_the_best_of_all_placements_costs(seed, repeats):
    problem = random_row(seed) if repeats else random_problem(seed, most_nodes=6)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segments, "FAR", segments.FAR if repeats else seed % 3)
        row = SegmentRow.of(problem, {})
    optimum = placement_oracle.brute_force(problem)
    try:
        answer = row.solve(Tariff(problem.launch), 300_000, solve) if all(problem.units_of) else None
    except PinError:
        answer = None
    if answer is None:
        assert not repeats or math.isinf(optimum)
        return
    found = evaluate(problem, row.placement(answer.chosen))
    assert answer.bound <= optimum * (1 + 1e-9) + 1e-12
    assert found >= optimum * (1 - 1e-9)
    if repeats:  # and nothing is read across cuts beside what connects the parts
        assert answer.bound == pytest.approx(optimum, rel=1e-9, abs=1e-12)
        assert found == pytest.approx(answer.cost, rel=1e-9, abs=1e-12)
        assert found == pytest.approx(optimum, rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_placement_within_limits_is_below_the_bound(seed):
    """And what is offered keeps the limits, once it is cut."""
    problem = with_limits(seed, random_row(seed) if seed % 2 else random_problem(seed, most_nodes=6))
    if not all(problem.units_of):
        return
    uses = Uses(problem)
    known = [within_limits(problem, uses, each) for each in starting_placements(problem)]
    best = Incumbent(problem, [each for each in known if each is not None])

    def offer(placement):
        found = within_limits(best.problem, uses, placement)
        if found is not None:
            best.offer(found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_prices, "row_of", lambda *given: SegmentRow.of(*given[:2]))
        if not solve_limited_row(best, uses, 300_000, solve, offer):
            return
    optimum = placement_oracle.brute_force(problem)
    assert best.bound <= optimum * (1 + 1e-9)
    if best.placement is not None:
        assert evaluate(problem, best.placement) >= optimum * (1 - 1e-9)


@pytest.mark.parametrize("share", [None, 0.1, 0.3])
def test_work_does_not_grow_with_the_number_of_equal_blocks(share, monkeypatch):
    """Neither states nor visits of sweeps; the gap stays below one block's part."""
    visits = []
    monkeypatch.setattr(Prices, "_visit", counted(Prices._visit, visits))
    found = {}
    for blocks in (LARGE, 2 * LARGE):
        visits.clear()
        solution = solve(within(residual_row(blocks), share), 8_000)
        found[blocks] = (solution.work, len(visits))
        assert solution.gap <= (0 if share is None else 1e-3)
        assert solution.proof == "segments"
    assert all(twice <= 1.5 * once for twice, once in zip(found[2 * LARGE], found[LARGE], strict=True))


def within(problem, share):
    """The problem with memory for a share of its nodes at the first target."""
    if share is None:
        return problem
    memory = int(share * problem.nodes) * BYTES
    return replace(problem, limits=(TargetLimits(budget_bytes=memory), TargetLimits(), TargetLimits()))


def counted(function, calls):
    def count(*arguments):
        calls.append(function)
        return function(*arguments)

    return count


def test_networks_whose_blocks_differ_are_searched_as_a_whole():
    problem = residual_row(LARGE)
    assert row_of(problem, {}, problem.nodes) is not None
    units = (replace(unit, cost=unit.cost * (1 + unit.nodes[0] / 1000)) for unit in problem.units)
    assert row_of(replace(problem, units=tuple(units)), {}, problem.nodes) is None
