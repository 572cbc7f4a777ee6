"""The normal form of region sets: composites where they belong, marks that say something, no doubles."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated_region.annotations import Key
from annotated_region.ids import NodeId, RegionId, numbered
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.normal_form import in_canonical_order, normalized, regions_from_reading


def ids(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def plain(*nodes: int, units: tuple[ClaimedUnit, ...] = (), target: str = "t") -> NodeRegion:
    return NodeRegion(target, ids(*nodes), units)


def composite(name: str, *nodes: int, target: str = "t") -> NodeRegion:
    return NodeRegion(target, ids(*nodes), (ClaimedUnit(ids(*nodes), name),))


def mark(node: int) -> ClaimedUnit:
    return ClaimedUnit(ids(node), None)


def form(*members: NodeRegion) -> list[NodeRegion]:
    return in_canonical_order(normalized(dict(numbered(RegionId, members))).values())


PAIR = ClaimedUnit(ids(1, 2), "pair")

# For each case: regions, and their normal form.
CASES = {
    "a composite by itself": ([composite("pair", 1, 2)], [composite("pair", 1, 2)]),
    "a composite inside a plain region, whose nodes are claimed alone too": (
        [plain(0, 1, 2), composite("pair", 1, 2)],
        [plain(0, 1, 2, units=(mark(1), PAIR, mark(2)))],
    ),
    "a composite inside two plain regions": (
        [composite("pair", 1, 2), plain(0, 1, 2), plain(1, 2, 3)],
        [plain(0, 1, 2, units=(mark(1), PAIR, mark(2))), plain(1, 2, 3, units=(mark(1), PAIR, mark(2)))],
    ),
    "a plain region of exactly the nodes of a composite": (
        [plain(1, 2), composite("pair", 1, 2)],
        [plain(1, 2, units=(mark(1), PAIR, mark(2)))],
    ),
    "the same, inside a larger one": (
        [plain(1, 2), composite("pair", 1, 2), plain(1, 2, 3)],
        [plain(1, 2, units=(mark(1), PAIR, mark(2))), plain(1, 2, 3, units=(mark(1), PAIR, mark(2)))],
    ),
    "a composite of another target": (
        [plain(0, 1, 2), composite("pair", 1, 2, target="u")],
        [plain(0, 1, 2), composite("pair", 1, 2, target="u")],
    ),
    "a composite that sticks out": (
        [plain(0, 1), composite("pair", 1, 2)],
        [plain(0, 1), composite("pair", 1, 2)],
    ),
    "nodes that are claimed in a composite only": (
        [plain(0, 1, 2, units=(PAIR,))],
        [plain(0, 1, 2, units=(PAIR,))],
    ),
    "a node that is claimed alone elsewhere": (
        [plain(0, 1, 2, units=(PAIR,)), plain(1)],
        [plain(0, 1, 2, units=(mark(1), PAIR)), plain(1)],
    ),
    "a mark that says nothing": ([plain(0, 1, units=(mark(1),))], [plain(0, 1)]),
    "two composites in one region of their nodes": (
        [plain(1, 2, units=(ClaimedUnit(ids(1), "one"), PAIR))],
        [plain(1, 2, units=(ClaimedUnit(ids(1), "one"), PAIR))],
    ),
    "equal regions": (
        [plain(0, 1), plain(0, 1), composite("pair", 3, 4), composite("pair", 3, 4)],
        [plain(0, 1), composite("pair", 3, 4)],
    ),
    "two patterns on the same nodes": (
        [composite("pair", 1, 2), composite("other", 1, 2)],
        [composite("other", 1, 2), composite("pair", 1, 2)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_literal_cases(case: str) -> None:
    members, expected = CASES[case]
    assert form(*members) == expected


def members_of(target: str) -> st.SearchStrategy[NodeRegion]:
    nodes = st.sets(st.integers(0, 4), min_size=1, max_size=4).map(lambda found: tuple(sorted(found)))
    return st.one_of(
        nodes.map(lambda found: NodeRegion(target, ids(*found))),
        st.builds(
            lambda found, name: composite(name, *found, target=target), nodes, st.sampled_from(["p", "q"])
        ),
    )


some_members = st.lists(st.one_of(members_of("t"), members_of("u")), max_size=8)


@pytest.mark.campaign
@given(some_members, st.integers(0, 1000))
def test_the_form_depends_on_no_order_and_stays(members: list[NodeRegion], seed: int) -> None:
    once = form(*members)
    shuffled = list(members)
    random.Random(seed).shuffle(shuffled)
    assert form(*shuffled) == once
    assert form(*once) == once


@pytest.mark.campaign
@given(some_members, some_members)
def test_the_form_may_be_taken_in_steps(first: list[NodeRegion], second: list[NodeRegion]) -> None:
    assert form(*form(*first), *second) == form(*first, *second)


@pytest.mark.campaign
@given(some_members)
def test_nothing_that_is_claimed_is_lost_or_made_up(members: list[NodeRegion]) -> None:
    def alone(regions: list[NodeRegion]) -> set[tuple[str, int]]:
        return {(region.target, node) for region in regions for node in region.alone}

    def composites(regions: list[NodeRegion]) -> set[tuple[str, ClaimedUnit]]:
        return {(region.target, unit) for region in regions for unit in region.composites}

    formed = form(*members)
    assert alone(formed) == alone(members)
    assert composites(formed) == composites(members)
    assert {(region.target, region.nodes) for region in formed} <= {
        (region.target, region.nodes) for region in members
    }


@pytest.mark.campaign
@given(some_members)
def test_joining_loses_nothing(members: list[NodeRegion]) -> None:
    same_target = [member for member in form(*members) if member.target == "t"]
    if len(same_target) < 2:
        return
    left, right = same_target[:2]
    joined = left.joined(right)
    assert joined == right.joined(left)
    assert set(joined.nodes) == {*left.nodes, *right.nodes}
    assert set(joined.alone) == {*left.alone, *right.alone}
    assert set(joined.composites) == {*left.composites, *right.composites}


def test_ids_stay_and_the_first_of_equal_regions_keeps_its_label() -> None:
    members = {
        RegionId(3): NodeRegion("t", ids(0, 1), label="first"),
        RegionId(5): NodeRegion("t", ids(0, 1), label="second"),
        RegionId(7): composite("pair", 0, 1),
    }
    placed = normalized(members)
    assert list(placed) == [3]
    assert placed[RegionId(3)].label == "first"


# For each case: what reading finds, by label, and the regions.
READINGS = {
    "a plain region": ([("", (0, 1))], [plain(0, 1)]),
    "a composite": ([("pair#0", (1, 2))], [composite("pair", 1, 2)]),
    "a composite with a sharp in its name": ([("a#b#12", (1, 2))], [composite("a#b", 1, 2)]),
    "a label that is none of a composite": (
        [("pair#x", (1, 2))],
        [NodeRegion("t", ids(1, 2), label="pair#x")],
    ),
    "inside a plain region, claimed in the composite only": (
        [("", (0, 1, 2)), ("pair#0", (1, 2))],
        [plain(0, 1, 2, units=(PAIR,))],
    ),
    "inside a plain region, one node claimed alone too": (
        [("", (0, 1, 2)), ("pair#0", (1, 2)), ("#0", (2,))],
        [plain(0, 1, 2, units=(PAIR, mark(2)))],
    ),
    "a plain region of the nodes of a composite is that composite": (
        [("", (1, 2)), ("pair#0", (1, 2))],
        [composite("pair", 1, 2)],
    ),
    "the same, inside a larger region": (
        [("r0", (1, 2)), ("pair#0", (1, 2)), ("r1", (1, 2, 3))],
        [NodeRegion("t", ids(1, 2, 3), (PAIR,), "r1")],
    ),
    "a mark by itself is a plain region": ([("#3", (4,))], [plain(4)]),
    "a mark where no composite covers the node": ([("", (0, 1)), ("#0", (1,))], [plain(0, 1)]),
    "two labels on the same nodes": ([("a", (0,)), ("b", (0,))], [NodeRegion("t", ids(0), label="a")]),
}


@pytest.mark.parametrize("case", READINGS)
def test_what_reading_finds(case: str) -> None:
    found, expected = READINGS[case]
    regions = regions_from_reading([(Key("t", label), nodes) for label, nodes in found])
    assert list(regions.values()) == expected
    assert list(regions) == list(range(len(expected)))
