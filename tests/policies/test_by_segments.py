"""Segments of a network, each on the target that computes it fastest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import annotated_region as ar
from annotated_region.costs.model import PlacementTimes
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.policies import by_segments
from annotated_region.policies.by_segments import MOST_SEGMENTS, placed_by_segments
from annotated_region.policies.policy import Resolution
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

CHAIN = {f"v{number}": ("relax.tanh", (f"v{number - 1}" if number else "x",)) for number in range(16)}


@pytest.fixture(autouse=True)
def _two_targets():
    with temporary_registrations():
        for target in ("one", "two"):
            claim_ops(target, "relax.tanh")
        yield


def _graph(rows: Mapping[str, tuple[str, tuple[str, ...]]]) -> DataflowGraph:
    return read_dataflow(module_of(rows)["main"])


def _whole(target: str, count: int, *composites: Sequence[int]) -> Resolution:
    """All nodes on one target."""
    units = tuple(ClaimedUnit(tuple(map(NodeId, nodes)), f"{target}.made") for nodes in composites)
    return Resolution([NodeRegion(target, tuple(map(NodeId, range(count))), units)])


class Speeds:
    """A model under which each node takes a second, or what is given for its target and number."""

    def __init__(self, seconds: Mapping[str, Mapping[int, float]]) -> None:
        self.seconds = seconds
        self.asked: list[tuple[int, ...]] = []

    def launch(self, _target):
        return 0.0

    def compute(self, _target, unit):
        return 1.0 * len(unit.ops)

    def transfer(self, _size, _source, _destination):
        return 0.0

    def doubt(self, _target, _unit):
        return 0.0

    def first_of_fastest(self, graph, placements):
        everything = tuple(NodeId(number) for number in range(len(graph.nodes)))
        seconds = [self.segment_seconds(graph, [(everything, members)])[0] for members in placements]
        return PlacementTimes(seconds.index(min(seconds)), tuple(seconds))

    def segment_seconds(self, graph, segments):
        ops = [[node for node in nodes if _is_op(graph, node)] for nodes, _members in segments]
        self.asked += map(tuple, ops)
        assert all({*nodes}.issuperset(member.nodes) for nodes, members in segments for member in members)
        return [self._seconds(nodes, members) for nodes, (_nodes, members) in zip(ops, segments, strict=True)]

    def _seconds(self, nodes, members):
        held = {node: member.target for member in members for node in member.nodes}
        return math.fsum(self.seconds.get(held.get(node, "host"), {}).get(node, 1.0) for node in nodes)


def _is_op(graph: DataflowGraph, node: NodeId) -> bool:
    return graph.nodes[node].kind is NodeKind.OPERATION


def _placed(
    graph: DataflowGraph, placements: Sequence[Resolution], model: Speeds
) -> list[tuple[str, list[int]]]:
    weights = {number: 1.0 for number, node in graph.numbered() if node.kind is NodeKind.OPERATION}
    found = placed_by_segments(graph, placements, weights, model)
    assert found is not None
    return [(member.target, list(member.nodes)) for member in found.regions]


def test_each_segment_goes_to_the_target_that_is_fastest_there():
    model = Speeds({"one": dict.fromkeys(range(6), 0.5), "two": dict.fromkeys(range(6, 16), 0.5)})
    found = _placed(_graph(CHAIN), [_whole("one", 16), _whole("two", 16)], model)
    assert found == [("one", list(range(6))), ("two", list(range(6, 16)))]


def test_there_are_few_segments_of_equal_cost():
    model = Speeds({"one": {15: 0.0}, "two": {0: 0.0}})
    _placed(_graph(CHAIN), [_whole("one", 16), _whole("two", 16)], model)
    assert len(set(model.asked)) == MOST_SEGMENTS
    assert {len(nodes) for nodes in model.asked} == {2}


def test_a_placement_that_is_fastest_everywhere_has_no_rival():
    model = Speeds({"one": dict.fromkeys(range(16), 0.5)})
    weights = {NodeId(number): 1.0 for number in range(16)}
    assert placed_by_segments(_graph(CHAIN), [_whole("one", 16), _whole("two", 16)], weights, model) is None


def test_a_change_that_gains_too_little_is_not_made():
    model = Speeds({"one": {4: 0.95}})
    weights = {NodeId(number): 1.0 for number in range(16)}
    assert placed_by_segments(_graph(CHAIN), [_whole("one", 16), _whole("two", 16)], weights, model) is None


def test_a_composite_is_not_cut():
    model = Speeds({"one": {5: 0.1}, "two": dict.fromkeys((0, 1, 2, *range(9, 16)), 0.9)})
    found = _placed(_graph(CHAIN), [_whole("one", 16, range(3, 9)), _whole("two", 16)], model)
    assert [nodes for target, nodes in found if target == "one"] == [[2, 3, 4, 5, 6, 7, 8]]


def test_no_cut_is_made_where_many_values_cross():
    rows = {
        **{f"a{number}": ("relax.tanh", ("x",)) for number in range(4)},
        "b": ("relax.add", ("a0", "a1")),
        "c": ("relax.add", ("a2", "b")),
        "d": ("relax.add", ("a3", "c")),
        "e": ("relax.exp", ("d",)),
    }
    model = Speeds({"one": {7: 0.1}, "two": {0: 0.1}})
    _placed(_graph(rows), [_whole("one", 8), _whole("two", 8)], model)
    # Behind `a2`, `a3` and `b` three and four values cross.
    assert {nodes[-1] for nodes in model.asked} == {0, 1, 5, 6, 7}


def test_a_segment_that_every_target_rejects_leaves_no_combination():
    broken = dict.fromkeys(range(2), math.inf)
    model = Speeds({"one": broken, "two": broken})
    weights = {NodeId(number): 1.0 for number in range(16)}
    assert placed_by_segments(_graph(CHAIN), [_whole("one", 16), _whole("two", 16)], weights, model) is None


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf]), min_size=width, max_size=width),
            min_size=1,
            max_size=5,
        )
    )
)
def test_the_path_is_the_shortest_of_all(times):
    columns = [math.fsum(column) for column in zip(*times, strict=True)]
    change = by_segments.CHANGE * min(columns) if math.isfinite(min(columns)) else 0.0

    def length(path: Sequence[int]) -> float:
        changes = sum(one != other for one, other in itertools.pairwise(path))
        return math.fsum(row[number] for row, number in zip(times, path, strict=True)) + change * changes

    best = min(map(length, itertools.product(range(len(times[0])), repeat=len(times))))
    path = by_segments._shortest(times)
    assert (path is None) == math.isinf(best)
    assert path is None or length(path) == pytest.approx(best)


def test_least_cost_places_by_segments_where_that_is_faster():
    """Single ops cost the same everywhere, so only whole segments show the difference."""
    model = Speeds({"one": dict.fromkeys(range(6), 0.5), "two": dict.fromkeys(range(6, 16), 0.5)})
    report = ar.explain(module_of(CHAIN), ["one", "two"], ar.LeastCost(model), prepare=False).to_dict()
    (function,) = report["functions"]
    assert [op["placed"] for op in function["ops"]] == ["one"] * 6 + ["two"] * 10
    assert function["measured"]["taken"] == "by segments"
    assert function["measured"]["seconds"]["by segments"] == 8.0
