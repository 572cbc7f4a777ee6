"""MergeCompilerRegions: as large as validity allows, whatever the binding order."""

import merge_campaign
import pytest
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.notes import DissolveNote, DissolveReason
from annotated_region.passes.region_session import RegionSession
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, binding_orders, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        yield


def merged(mod, targets=("sketch",), **options):
    annotated = ar.passes.AnnotateTarget(list(targets))(mod)
    result = ar.passes.MergeCompilerRegions(**options)(annotated)
    relax.analysis.well_formed(result)
    regions = ar.AnnotatedRegionSet(result["main"])
    ar.check_certificate(result["main"], regions, regions.verify())
    return regions


def names(regions):
    return [{var.name for var in region.nodes} for region in regions]


SIX_OP_ORDERS = list(binding_orders(SIX_OPS))


def test_there_are_eighteen_binding_orders_of_the_six_ops():
    # Counted by hand: 20 interleavings of two chains of three, less the two in which a chain runs ahead.
    assert len(SIX_OP_ORDERS) == 18


@pytest.mark.parametrize("order", SIX_OP_ORDERS, ids="-".join)
def test_six_ops_in_every_binding_order(order):
    assert names(merged(module_of(SIX_OPS, order))) == [{"a1", "a2"}, {"b1", "b2"}]


@pytest.mark.parametrize("order", SIX_OP_ORDERS, ids="-".join)
def test_six_ops_with_connected_regions_in_every_binding_order(order):
    # Of a1+b1 and a2+b2 only one may be joined: three regions is the least.
    regions = merged(module_of(SIX_OPS, order), siblings=False)
    assert len(regions) == 3


def test_two_resolutions_in_every_binding_order():
    orders = list(binding_orders(TWO_RESOLUTIONS))
    assert len(orders) == 180
    for order in orders:
        found = names(merged(module_of(TWO_RESOLUTIONS, order)))
        assert found == [{"high1", "low1"}, {"high2", "low2"}, {"high3", "low3"}]


def test_a_chain_without_a_gap_is_one_region():
    chain = {f"n{i}": ("relax.nn.relu", (f"n{i - 1}" if i else "x",)) for i in range(20)}
    assert names(merged(module_of(chain))) == [{*chain, "gv"}]


def test_max_nodes_bounds_a_joined_region():
    chain = {f"n{i}": ("relax.nn.relu", (f"n{i - 1}" if i else "x",)) for i in range(10)}
    found = names(merged(module_of(chain), max_nodes=4))
    assert max(map(len, found)) <= 4
    assert len(found) == 3


def test_max_regions_keeps_the_largest():
    graph = {
        "a": ("relax.nn.relu", ("x",)),
        "b": ("relax.nn.relu", ("a",)),
        "gap": ("relax.tanh", ("b",)),
        "c": ("relax.nn.relu", ("gap",)),
    }
    assert names(merged(module_of(graph), max_regions=1)) == [{"a", "b"}]


def test_a_backend_may_refuse_a_region():
    ar.register_backend("sketch", accepts_region=lambda region: len(region.inputs) <= 1 or "one input only")
    graph = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.nn.relu", ("y",)), "c": ("relax.nn.relu", ("a",))}
    assert names(merged(module_of(graph))) == [{"a", "c"}, {"b"}]


def dissolved(graph, **options):
    session = RegionSession(keeps_notes=True)
    steps = [ar.passes.AnnotateTarget(["sketch"]), ar.passes.MergeCompilerRegions(**options)]
    session.run(steps, module_of(graph))
    notes = (note for note in session.notes["main"] if isinstance(note, DissolveNote))
    return [([var.name for var in note.nodes], note.reason, note.limit, note.answer) for note in notes]


def test_a_region_that_is_given_back_is_noted_with_the_reason():
    graph = {
        "a": ("relax.nn.relu", ("x",)),
        "b": ("relax.nn.relu", ("a",)),
        "gap": ("relax.tanh", ("b",)),
        "c": ("relax.nn.relu", ("gap",)),
    }
    many = (["c", "gv"], DissolveReason.MANY_REGIONS, 1, None)
    assert dissolved(graph, max_regions=1) == [many]
    ar.register_backend("sketch", accepts_region=lambda region: len(region.nodes) > 2 or "too small")
    refused = (["a"], DissolveReason.REFUSED, 0, "too small"), (["b"], DissolveReason.REFUSED, 0, "too small")
    assert dissolved(graph)[:2] == list(refused)


def test_a_backend_that_wants_connected_regions_gets_them():
    ar.register_backend("sketch", regions="connected")
    graph = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.nn.relu", ("y",))}
    assert names(merged(module_of(graph))) == [{"a"}, {"b"}]
    assert names(merged(module_of(graph), siblings=True)) == [{"a", "b"}]


def test_targets_are_merged_apart_while_they_overlap_and_together_afterwards():
    claim_ops("other", "relax.tanh", "relax.add")
    regions = merged(module_of(SIX_OPS), ("sketch", "other"))
    assert {(region.target, frozenset(var.name for var in region.nodes)) for region in regions} == {
        ("sketch", frozenset({"a1", "a2"})),
        ("sketch", frozenset({"b1", "b2"})),
        ("other", frozenset({"x1", "y1", "b1", "b2"})),
    }


def test_composites_are_whole():
    pattern = is_op("relax.add")(is_op("relax.nn.relu")(wildcard()), wildcard())
    graph = {
        "a": ("relax.nn.relu", ("x",)),
        "b": ("relax.add", ("a", "x")),
        "c": ("relax.nn.relu", ("b",)),
    }
    ar.register_pattern("sketch", "sketch.relu_add", pattern)
    regions = merged(module_of(graph), max_nodes=1)
    holders = [region for region in regions if region.composites]
    assert [{var.name for var in region.nodes} for region in holders] == [{"a", "b"}]


def test_a_merge_of_merged_regions_changes_nothing():
    annotated = ar.passes.AnnotateTarget(["sketch"])(module_of(TWO_RESOLUTIONS))
    once = ar.passes.MergeCompilerRegions()(annotated)
    assert ar.passes.MergeCompilerRegions()(once).script() == once.script()


def test_layered_graphs_of_two_targets_stay_valid():
    claim_ops("first", "relax.add", "relax.nn.relu")
    claim_ops("second", "relax.add", "relax.tanh")
    assert all(merge_campaign.check(mod, targets) for mod, targets in merge_campaign.examples(48, seed=2))
