"""Every pass and policy keeps to the form of regions that a target accepts, also for manual annotations."""

import pytest
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

CHAIN = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.tanh", ("a",)),
    "c": ("relax.nn.relu", ("b",)),
    "d": ("relax.tanh", ("c",)),
    "e": ("relax.sigmoid", ("d",)),
}
POLICIES = {
    "priority": ar.Priority(["t"]),
    "least cost": ar.LeastCost(UnitCost(host_op=9.0)),
}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("t", "relax.sigmoid")
        ar.register_pattern("t", "t.relu_tanh", is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard())))
        yield


def regions_of(mod, policy):
    mod = ar.passes.MergeCompilerRegions()(ar.passes.AnnotateTarget(["t"])(mod))
    mod = ar.passes.MergeCompilerRegions()(ar.passes.ResolveConflicts(policy)(mod))
    regions = ar.AnnotatedRegionSet(mod["main"])
    ar.check_certificate(mod["main"], regions, regions.verify())
    return [[var.name for var in region.nodes if var.name != "gv"] for region in regions]


def external_sizes(mod):
    """How many calls each external function makes."""
    sizes = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs:
            bindings = [each for block in func.body.blocks for each in block.bindings]
            sizes.append(sum(isinstance(each.value, relax.Call) for each in bindings))
    return sizes


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_one_composite_a_region(policy):
    assert regions_of(module_of(CHAIN), policy) == [["a", "b", "c", "d", "e"]]
    ar.register_backend("t", regions="one composite")
    assert regions_of(module_of(CHAIN), policy) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_connected_regions(policy):
    apart = {"e": ("relax.sigmoid", ("x",)), "f": ("relax.sigmoid", ("y",))}
    assert regions_of(module_of(apart), policy) == [["e", "f"]]
    ar.register_backend("t", regions="connected")
    assert regions_of(module_of(apart), policy) == [["e"], ["f"]]


def test_regions_that_were_annotated_by_hand_are_cut_too():
    mod = module_of(CHAIN)
    func = mod["main"]
    by_name = {each.var.name: each.var for block in func.body.blocks for each in block.bindings}
    claim = tuple(by_name[name] for name in "abcde")
    mod.update_func(
        mod.get_global_var("main"), ar.AnnotatedRegionSet.from_claims(func, {"t": [claim]}).annotate()
    )
    assert external_sizes(ar.passes.PartitionGraph()(mod)) == [5]
    ar.register_backend("t", regions="one composite", share_equal_regions=False)
    assert external_sizes(ar.passes.PartitionGraph()(mod)) == [1, 1, 1, 1, 1]


def test_overlapping_composites_without_a_policy():
    """The largest of those that share nodes stay, each in a function of its own."""
    ar.register_pattern("t", "t.tanh_relu", is_op("relax.nn.relu")(is_op("relax.tanh")(wildcard())))
    ar.register_backend("t", regions="one composite")
    claim_ops("t", "relax.nn.relu", "relax.tanh", "relax.sigmoid")
    mod = ar.passes.MergeCompilerRegions()(ar.passes.AnnotateTarget(["t"])(module_of(CHAIN)))
    assert set(external_sizes(ar.passes.PartitionGraph()(mod))) == {1}


def test_a_launch_is_paid_for_each_unit():
    """Together 4 + 3 units; apart 5 for each composite (the host: 6), and the sigmoid stays for 3."""
    policy = ar.LeastCost(UnitCost(op=1.0, host_op=3.0, region=4.0, crossing=0.0))

    def answer():
        report = ar.explain(module_of(CHAIN), ["t"], policy, prepare=False).to_dict()
        return len(report["functions"][0]["regions"]), report["cost"], report["gap"]

    assert answer() == (1, 7.0, 0.0)
    ar.register_backend("t", regions="one composite")
    assert answer() == (2, 13.0, 0.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"regions": "one"}, "'one' is unknown; choose one of 'any', 'connected', 'one composite'"),
        ({"connected_regions": True}, "a backend has no option 'connected_regions'; its options are name"),
    ],
)
def test_what_describes_no_backend_is_an_error(options, said):
    with pytest.raises(ar.InvalidBackendError, match=said):
        ar.register_backend("t", **options)


def test_a_name_is_a_text():
    with pytest.raises(ar.InvalidBackendError, match="3 is neither a Backend nor the name of a target"):
        ar.register_backend(3)  # type: ignore[arg-type]
    with pytest.raises(ar.InvalidBackendError, match="must be a non-empty string, not ''"):
        ar.register_backend("")
