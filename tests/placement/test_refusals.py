"""Invalid problems and invalid placements are rejected with a reason; searches keep their budgets."""

from dataclasses import replace

import pytest
from kits.placement.placement_milp import network, with_budget
from kits.placement.placement_problems import of_edges, uniform_table

from annotated_region.ids import Place, UnitId
from annotated_region.placement import (
    PlacedRegion,
    Placement,
    PlacementConstant,
    PlacementUnit,
    PlacementValue,
    TargetLimits,
    evaluate,
    solve,
)
from annotated_region.placement.evaluation import InvalidPlacementError

TABLE = uniform_table(1, 1.0)
COSTS = [[1.0, 2.0]] * 3
# Three nodes in a chain, one target; units 0, 2, 4 are the target's, 1, 3, 5 the host's, 6 is a composite.
CHAIN = of_edges(3, [(0, 1), (1, 2)], [0.5], COSTS, TABLE, [PlacementUnit(Place(0), (0, 1), 1.5)])
SIZED = replace(CHAIN, values=tuple(replace(value, size=4) for value in CHAIN.values))


def value(*consumers, made=None, table=TABLE):
    return PlacementValue(made, consumers, table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"launch": (-1.0,)}, "a launch takes a finite time"),
        ({"units": (PlacementUnit(Place(0), (0,), -1.0),)}, "the cost of a unit is not negative"),
        ({"values": (value(0, table=((0.0,),)),)}, "a transfer table has 2 rows and columns"),
        ({"values": (value(0, table=uniform_table(1, -1.0)),)}, "a transfer takes a finite time"),
        ({"values": (value(3),)}, "does not name nodes, each once and ascending"),
        ({"values": (value(1, 0),)}, "does not name nodes, each once and ascending"),
        ({"values": (value(0, 0),)}, "does not name nodes, each once and ascending"),
        ({"values": (value(1, made=1),)}, "is read before it is made"),
        ({"units": (PlacementUnit(Place(2), (0,), 1.0),)}, "does not name a place and nodes"),
        ({"units": (PlacementUnit(Place(0), (), 1.0),)}, "does not name a place and nodes"),
        ({"units": (PlacementUnit(Place(1), (0, 1), 1.0),)}, "the host runs single nodes"),
        ({"limits": (TargetLimits(), TargetLimits())}, "2 limits for 1 targets"),
        ({"limits": (TargetLimits(ops=-1),)}, "a limit is not negative"),
        ({"constants": (PlacementConstant(1, ()),)}, "does not name nodes"),
    ],
)
def test_what_is_no_problem(change, message):
    with pytest.raises(ValueError, match=message):
        replace(CHAIN, **change)


def placement(*regions, host=()):
    placed = tuple(PlacedRegion(Place(0), tuple(map(UnitId, units))) for units in regions)
    return Placement(placed, tuple(map(UnitId, host)))


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({}, placement((), host=(1, 3, 5)), "region 0 is empty"),
        ({}, placement((0, 3), host=(5,)), "is in a region of place 0"),
        ({}, placement((0, 6), host=(5,)), "node 0 is covered twice"),
        ({}, placement((0,), host=(5,)), "node 1 is not covered"),
        ({}, placement((0, 4), host=(3,)), "the quotient graph has a cycle"),
        ({"single": frozenset([Place(0)])}, placement((0, 2), host=(5,)), "holds several units"),
        ({"limits": (TargetLimits(ops=1),)}, placement((0, 2), host=(5,)), "too large for its target"),
        ({"limits": (TargetLimits(workspace_bytes=3),)}, placement((0, 2), host=(5,)), "too large for its"),
        ({"limits": (TargetLimits(regions=1),)}, placement((0,), (4,), host=(3,)), "2 regions of place 0"),
        ({"limits": (TargetLimits(budget_bytes=3),)}, placement((0,), host=(3, 5)), "4 bytes at place 0"),
        (
            {"accepts": lambda _place, _units: False},
            placement((0,), host=(3, 5)),
            "rejected by its target",
        ),
    ],
)
def test_what_is_no_placement(change, given, message):
    with pytest.raises(InvalidPlacementError, match=message):
        evaluate(replace(SIZED, **change), given)


def test_a_region_in_two_parts_is_refused_where_regions_hang_together():
    apart = of_edges(2, [], [0.5], COSTS[:2], TABLE)
    both = placement((0, 2))
    assert evaluate(apart, both) == 0.5 + 2.0 + 2.0
    with pytest.raises(InvalidPlacementError, match="is not connected"):
        evaluate(replace(apart, connected=frozenset([Place(0)])), both)


@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize("nodes", [100, 200])
def test_a_search_keeps_its_budget(nodes, share):
    """With limits and without; the step that reaches it is finished."""
    problem = network(nodes, nodes, launch=0.7)
    if share is not None:
        problem = with_budget(problem, share)
    budget = 30_000
    assert solve(problem, budget).work <= 1.25 * budget
