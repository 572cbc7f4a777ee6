"""Wrong arguments of public functions raise errors of this package that say what to pass."""

# The arguments are wrong on purpose.
# mypy: disable-error-code="arg-type, dict-item, list-item"

import pytest
from tvm import relax

import annotated_region as ar
from annotated_region.costs import RooflineCost, UnitCost
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

MOD = module_of(SIX_OPS)
FUNC = MOD["main"]

SLIPS = {
    "several targets for the host": (
        lambda: ar.build(MOD, ["dnnl"]),
        r"the argument target is \['dnnl'\]; pass a string or a target of TVM for the host, such as",
    ),
    "a target that TVM does not know": (
        lambda: ar.build(MOD, "llvmm"),
        "TVM does not know the target 'llvmm'",
    ),
    "options that are none": (lambda: ar.build(MOD, options=["bf16"]), "the argument options is"),
    "options of a backend that are none": (
        lambda: ar.build(MOD, options={"t": "bf16"}),
        "the entry 't' of the argument options is 'bf16'; pass a dict",
    ),
    "targets that are none": (lambda: ar.partition(MOD, 42), "the argument targets is 42; pass the names"),
    "a target that is a backend": (
        lambda: ar.explain(MOD, [ar.Backend("t")]),
        "entry of the argument targets is ",
    ),
    "targets of the pass": (lambda: ar.passes.AnnotateTarget(3), "the argument targets is 3"),
    "a policy by name": (
        lambda: ar.partition(MOD, ["t"], policy="least-cost"),
        "the argument policy is 'least-cost', which has no method 'resolve'; pass a policy",
    ),
    "a class of policies": (
        lambda: ar.partition(MOD, ["t"], policy=ar.LeastCost),
        "the argument policy is the class LeastCost; pass an object of it",
    ),
    "a policy of the pass": (lambda: ar.passes.ResolveConflicts(None), "the argument policy is None"),
    "a cost model by name": (
        lambda: ar.LeastCost("roofline"),
        "model is 'roofline', which has no",
    ),
    "a class of cost models": (lambda: ar.LeastCost(UnitCost), "the argument model is the class UnitCost"),
    "a budget that is no number": (
        lambda: ar.LeastCost(UnitCost(), budget="x"),
        "budget is 'x'",
    ),
    "pins in a list": (lambda: ar.partition(MOD, ["t"], pins=["x"]), "the argument pins is"),
    "bans in a list": (lambda: ar.partition(MOD, ["t"], bans=["x"]), "the argument bans is"),
    "least work in words": (
        lambda: ar.partition(MOD, ["t"], min_work={"t": "x"}),
        "the entry 't' of the argument min_work is 'x'",
    ),
    "devices by name": (lambda: RooflineCost("fast"), "the argument devices is 'fast'; pass a dict"),
    "a device that is none": (
        lambda: RooflineCost({"t": 3}),
        "the entry 't' of the argument devices is 3; pass a dict",
    ),
    "no rounds": (lambda: ar.MeasuredCost(rounds=0), "the argument rounds is 0"),
    "rounds in words": (lambda: ar.MeasuredCost(rounds="5"), "the argument rounds is '5'"),
    "regions of a module": (
        lambda: ar.AnnotatedRegionSet(MOD),
        r"of class IRModule; pass a relax\.Function",
    ),
    "regions of a name": (
        lambda: ar.AnnotatedRegionSet(FUNC).regions_of("a1"),
        "the argument var is 'a1'; pass a variable",
    ),
    "claims in a list": (lambda: ar.AnnotatedRegionSet.from_claims(FUNC, ["t"]), "the argument claims is"),
    "op info of a Relax function": (lambda: ar.op_infos(FUNC), "of class Function; pass a PrimFunc"),
    "the op of a text": (
        lambda: ar.infer_op_info("conv2d"),
        "the argument prim_func is 'conv2d'; pass a PrimFunc",
    ),
    "a rule for a number": (lambda: ar.register_rule("t", 3), "the argument op_name is 3; pass a string"),
    "a rule that is an answer": (
        lambda: ar.register_rule("t", "relax.add")("no"),
        "the rule for relax.add is 'no'; pass a function of an OpView",
    ),
    "a pattern by name": (
        lambda: ar.register_pattern("t", "t.x", "relu"),
        r"the argument pattern is 'relu'; pass a pattern of tvm\.relax\.dpl",
    ),
    "a check that is an answer": (
        lambda: ar.register_pattern("t", "t.x", relax.dpl.wildcard(), check=True),
        "the argument check is True; pass a function",
    ),
}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("t", "relax.add")
        yield


@pytest.mark.parametrize(("slip", "said"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_an_error_of_ours(slip, said):
    with pytest.raises(ar.UsageError, match=said):
        slip()


def test_it_is_a_type_error_too():
    """For callers that do not know this package."""
    with pytest.raises(TypeError):
        ar.partition(MOD, 42)


def test_a_text_is_no_value_to_annotate():
    with pytest.raises(
        ar.MalformedAnnotationError, match="the argument value is 'x'; pass a Relax expression"
    ):
        ar.compiler_begin("x", "dnnl")
