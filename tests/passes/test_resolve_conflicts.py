"""ResolveConflicts with Priority: disjoint, acyclic, composites whole, in every binding order."""

import itertools

import pytest
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.notes import UnavailableNote
from annotated_region.passes.region_session import RegionSession
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, binding_orders, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def resolved(mod, targets, policy=None, merge=True, **options):
    mod = ar.passes.AnnotateTarget(targets)(mod)
    if merge:
        mod = ar.passes.MergeCompilerRegions()(mod)
    result = ar.passes.ResolveConflicts(policy or ar.Priority(targets), **options)(mod)
    relax.analysis.well_formed(result)
    regions = ar.AnnotatedRegionSet(result["main"])
    assert regions.is_disjoint()
    ar.check_certificate(result["main"], regions, regions.verify())
    return regions


def placed(regions):
    return {var.name: region.target for region in regions for var in region.nodes}


CHAIN = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.add", ("a", "a")),
    "c": ("relax.tanh", ("b",)),
    "d": ("relax.add", ("c", "c")),
}


def test_the_first_target_that_claims_wins():
    claim_ops("first", "relax.add")
    claim_ops("second", "relax.nn.relu", "relax.add", "relax.tanh")
    found = placed(resolved(module_of(CHAIN), ["first", "second"]))
    assert found == {"a": "second", "b": "first", "c": "second", "d": "first", "gv": "first"}
    found = placed(resolved(module_of(CHAIN), ["first", "second"], ar.Priority(["second"])))
    assert set(found.values()) == {"second"}


def test_a_region_that_loses_its_middle_falls_apart():
    claim_ops("first", "relax.tanh")
    claim_ops("second", "relax.nn.relu", "relax.add", "relax.tanh")
    regions = resolved(module_of(CHAIN), ["first", "second"])
    assert [(region.target, [var.name for var in region.nodes]) for region in regions] == [
        ("second", ["a", "b"]),
        ("first", ["c"]),
        ("second", ["d", "gv"]),
    ]


@pytest.mark.parametrize("order", list(binding_orders(SIX_OPS)), ids="-".join)
def test_six_ops_with_two_targets_in_every_binding_order(order):
    claim_ops("first", "relax.nn.relu", "relax.add")
    claim_ops("second", "relax.tanh", "relax.add")
    found = placed(resolved(module_of(SIX_OPS, order), ["first", "second"]))
    assert {name: target for name, target in found.items() if name != "gv"} == {
        "a1": "first", "a2": "first", "x1": "second", "y1": "second", "b1": "first", "b2": "first",
    }  # fmt: skip


@pytest.mark.parametrize("graph", [SIX_OPS, TWO_RESOLUTIONS], ids=["six ops", "two resolutions"])
def test_every_assignment_of_hand_annotated_targets_is_valid(graph):
    """Each node alone for a target of its own choice: every assignment must come out acyclic and whole."""
    names = list(graph)
    func = module_of(graph)["main"]
    variables = {b.var.name: b.var for block in func.body.blocks for b in block.bindings}
    choices = list(itertools.product(("first", "second", None), repeat=len(names)))
    for choice in choices[:: max(1, len(choices) // 150)]:
        claims = {"first": [], "second": []}
        for name, target in zip(names, choice, strict=True):
            if target is not None:
                claims[target].append(variables[name])
        claim_ops("first")
        ar.register_backend("first")
        ar.register_backend("second")
        annotated = ar.AnnotatedRegionSet.from_claims(func, claims).annotate()
        mod = module_of(graph)
        mod.update_func(mod.get_global_var("main"), annotated)
        mod = ar.passes.MergeCompilerRegions()(mod)
        mod = ar.passes.ResolveConflicts(ar.Priority(["first", "second"]))(mod)
        regions = ar.AnnotatedRegionSet(mod["main"])
        ar.check_certificate(mod["main"], regions, regions.verify())
        expected = {name: target for name, target in zip(names, choice, strict=True) if target is not None}
        assert placed(regions) == expected
        relax.analysis.well_formed(ar.passes.PartitionGraph()(mod))


def test_of_overlapping_composites_the_largest_wins_and_what_is_left_falls_back():
    add_relu = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    relu_tanh = is_op("relax.tanh")(is_op("relax.nn.relu")(is_op("relax.exp")(wildcard())))
    graph = {
        "s": ("relax.exp", ("x",)),
        "r": ("relax.nn.relu", ("s",)),
        "t": ("relax.tanh", ("r",)),
    }
    ar.register_pattern("sketch", "sketch.exp_relu", is_op("relax.nn.relu")(is_op("relax.exp")(wildcard())))
    ar.register_pattern("sketch", "sketch.exp_relu_tanh", relu_tanh)
    ar.register_pattern("sketch", "sketch.add_relu", add_relu)
    regions = resolved(module_of(graph), ["sketch"])
    found = [composite.name for region in regions for composite in region.composites]
    assert found == ["sketch.exp_relu_tanh"]


@pytest.mark.parametrize("merge", [True, False])
def test_the_largest_composite_wins_with_and_without_a_merge_before(merge):
    """Without one, each claim is a region of its own, and the smaller one comes first."""
    relu, doubled = is_op("relax.nn.relu")(wildcard()), wildcard()
    claim_ops("t", "relax.nn.relu")
    ar.register_pattern("t", "t.relu", relu)
    ar.register_pattern("t", "t.three", is_op("relax.tanh")(is_op("relax.add")(relu, doubled)))
    regions = resolved(module_of(CHAIN), ["t"], merge=merge)
    assert [composite.name for region in regions for composite in region.composites] == ["t.three"]


def test_an_op_that_is_claimed_only_inside_a_lost_composite_goes_to_the_host():
    claim_ops("first", "relax.nn.relu")
    ar.register_pattern("second", "second.relu_tanh", is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard())))
    graph = {"r": ("relax.nn.relu", ("x",)), "t": ("relax.tanh", ("r",))}
    assert placed(resolved(module_of(graph), ["first", "second"])) == {"r": "first"}


def test_composites_that_need_each_other_are_not_both_taken():
    """a1+b1 and a2+b2 of the six ops as composites: each is fine, both are a cycle."""
    mod = module_of(SIX_OPS)
    variables = {b.var.name: b.var for block in mod["main"].body.blocks for b in block.bindings}
    ar.register_backend("sketch")
    composites = [
        ar.Composite("sketch.pair", (variables["a1"], variables["b1"])),
        ar.Composite("sketch.pair", (variables["a2"], variables["b2"])),
    ]
    annotated = ar.AnnotatedRegionSet.from_claims(mod["main"], {"sketch": composites}).annotate()
    mod.update_func(mod.get_global_var("main"), annotated)
    result = ar.passes.ResolveConflicts(ar.Priority(["sketch"]))(mod)
    regions = ar.AnnotatedRegionSet(result["main"])
    ar.check_certificate(result["main"], regions, regions.verify())
    assert [len(region.composites) for region in regions] == [1]


def test_fields_follow_the_op_that_makes_them():
    claim_ops("first", "relax.concat")
    claim_ops("second", "relax.split", "relax.concat")
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            halves = builder.emit(relax.op.split(x, 2, axis=1), name_hint="halves")
            left = builder.emit(relax.TupleGetItem(halves, 0), name_hint="left")
            right = builder.emit(relax.TupleGetItem(halves, 1), name_hint="right")
            joined = builder.emit(relax.op.concat([right, left], axis=1), name_hint="joined")
            out = builder.emit_output(joined)
        builder.emit_func_output(out)
    found = placed(resolved(builder.get(), ["first", "second"]))
    assert found["left"] == found["right"] == found["halves"] == "second"
    assert found["joined"] == "first"


def test_a_target_that_cannot_run_here_wins_only_when_asked_to():
    claim_ops("absent", "relax.nn.relu", "relax.add")
    ar.register_backend("absent", unavailable=lambda: "the absent library is not installed")
    claim_ops("present", "relax.add", "relax.tanh")
    annotated = ar.passes.AnnotateTarget(["absent", "present"])(module_of(CHAIN))
    found = placed(resolved(module_of(CHAIN), ["absent", "present"]))
    assert "absent" not in found.values()
    assert "a" not in found
    session = RegionSession(keeps_notes=True)
    session.run([ar.passes.ResolveConflicts(ar.Priority([]))], annotated)
    assert session.notes["main"][0] == UnavailableNote("absent", "the absent library is not installed")
    found = placed(resolved(module_of(CHAIN), ["absent", "present"], cross_compile=True))
    assert found["a"] == "absent"


def test_nothing_annotated_is_nothing_to_resolve():
    mod = module_of(CHAIN)
    assert ar.passes.ResolveConflicts(ar.Priority([]))(mod).script() == mod.script()
