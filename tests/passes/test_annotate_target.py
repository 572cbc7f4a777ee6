"""AnnotateTarget: claims and the nodes that belong to them, declines and their reasons."""

import pytest
import tvm
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.notes import ClaimNote, DeclineNote, DeclineReason, Refusal
from annotated_region.passes.region_session import RegionSession
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, a)
            c = R.tanh(b)
            R.output(c)
        return c


@I.ir_module
class Split:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            s = R.split(x, 2, axis=1)
            left = s[0]
            right = s[1]
            pair = (left, right)
            joined = R.concat(pair, axis=0)
            renamed = joined
            R.output(renamed)
        return renamed


def regions_after(mod, targets):
    annotated = ar.passes.AnnotateTarget(targets)(mod)
    relax.analysis.well_formed(annotated)
    return ar.AnnotatedRegionSet(annotated["main"])


def noted(mod, targets, kind):
    """What `AnnotateTarget` notes of one kind, by the name of the variable."""
    session = RegionSession(keeps_notes=True)
    session.run([ar.passes.AnnotateTarget(targets)], mod)
    return {note.var.name: note for note in session.notes["main"] if isinstance(note, kind)}


def names(regions):
    return [(region.target, [var.name for var in region.nodes]) for region in regions]


def test_before_and_expected():
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                x_begin = R.annotation.compiler_begin(x, compiler="sketch")
                a = R.nn.relu(x_begin)
                a_end = R.annotation.compiler_end(a, compiler="sketch")
                a_begin = R.annotation.compiler_begin(a_end, compiler="sketch")
                b = R.add(a_begin, a_begin)
                b_end = R.annotation.compiler_end(b, compiler="sketch")
                c = R.tanh(b_end)
                R.output(c)
            return c

    claim_ops("sketch", "relax.nn.relu", "relax.add")
    tvm.ir.assert_structural_equal(ar.passes.AnnotateTarget(["sketch"])(Chain), Expected)


def test_the_module_that_was_given_stays_unchanged():
    claim_ops("sketch", "relax.nn.relu")
    before = Chain.script()
    ar.passes.AnnotateTarget(["sketch"])(Chain)
    assert Chain.script() == before


def test_claims_of_two_targets_overlap():
    claim_ops("left", "relax.nn.relu", "relax.add")
    claim_ops("right", "relax.add", "relax.tanh")
    assert names(regions_after(Chain, ["left", "right"])) == [
        ("left", ["a"]),
        ("left", ["b"]),
        ("right", ["b"]),
        ("right", ["c"]),
    ]


def test_fields_names_and_tuples_belong_to_the_ops_around_them():
    claim_ops("sketch", "relax.split", "relax.concat")
    assert names(regions_after(Split, ["sketch"])) == [
        ("sketch", ["s", "left", "right"]),
        ("sketch", ["pair", "joined", "renamed"]),
    ]


def test_a_match_cast_of_a_claimed_value_stays_outside_of_the_region():
    @I.ir_module
    class Cast:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            n = T.int64()
            a = R.nn.relu(x)
            b = R.match_cast(a, R.Tensor((n, 4), "float32"))
            c = R.tanh(b)
            return (b, c)

    claim_ops("sketch", "relax.nn.relu", "relax.tanh")
    regions = regions_after(Cast, ["sketch"])
    assert [[var.name for var in region.nodes] for region in regions] == [["a"], ["c"]]


def test_composites_are_claimed_beside_the_single_ops():
    claim_ops("sketch", "relax.nn.relu")
    ar.register_pattern(
        "sketch", "sketch.add_tanh", is_op("relax.tanh")(is_op("relax.add")(wildcard(), wildcard()))
    )
    regions = regions_after(Chain, ["sketch"])
    assert names(regions) == [("sketch", ["a"]), ("sketch", ["b", "c"])]
    assert [composite.name for region in regions for composite in region.composites] == ["sketch.add_tanh"]


def test_a_composite_whose_intermediate_is_used_elsewhere_is_declined_with_the_reason():
    @I.ir_module
    class Leaking:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(a)
                c = R.add(a, b)
                R.output(c)
            return c

    ar.register_pattern("sketch", "sketch.relu_tanh", is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard())))
    assert names(regions_after(Leaking, ["sketch"])) == []
    declined = noted(Leaking, ["sketch"], DeclineNote)
    assert declined["b"].refusal == Refusal(DeclineReason.USED_OUTSIDE, "a", "sketch.relu_tanh")


def test_the_check_of_a_pattern_sees_what_its_parts_matched():
    data = wildcard()
    seen = []

    def check(context):
        seen.append((context.annotated_expr["data"].name, context.matched_expr.op.name))
        return "not today"

    ar.register_pattern("sketch", "sketch.relu", is_op("relax.nn.relu")(data), check, {"data": data})
    assert names(regions_after(Chain, ["sketch"])) == []
    assert seen == [("x", "relax.nn.relu")]
    declined = noted(Chain, ["sketch"], DeclineNote)
    assert declined["a"].refusal == Refusal(DeclineReason.ANSWERED, "not today", "sketch.relu")


def test_every_declined_op_has_one_reason():
    claim_ops("sketch", "relax.nn.relu")
    claim_ops("sketch", "relax.add", answer="no sums before noon")
    declined = noted(Chain, ["sketch"], DeclineNote)
    assert {name: (note.target, note.refusal) for name, note in declined.items()} == {
        "b": ("sketch", Refusal(DeclineReason.ANSWERED, "no sums before noon")),
        "c": ("sketch", Refusal(DeclineReason.NO_RULE, "relax.tanh")),
    }
    claimed = noted(Chain, ["sketch"], ClaimNote)
    assert {name: (note.target, note.by) for name, note in claimed.items()} == {
        "a": ("sketch", "relax.nn.relu")
    }


def test_hand_written_annotations_are_the_users_word():
    @I.ir_module
    class ByHand:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                begin = R.annotation.compiler_begin(x, compiler="mine")
                a = R.nn.relu(begin)
                b = R.add(a, a)
                end = R.annotation.compiler_end(b, compiler="mine")
                c = R.tanh(end)
                R.output(c)
            return c

    claim_ops("mine", "relax.exp")
    claim_ops("theirs", "relax.nn.relu", "relax.add", "relax.tanh")
    assert names(regions_after(ByHand, ["theirs", "mine"])) == [("mine", ["a", "b"]), ("theirs", ["c"])]


def test_annotating_twice_changes_nothing():
    claim_ops("left", "relax.nn.relu", "relax.add")
    claim_ops("right", "relax.add", "relax.tanh")
    once = ar.passes.AnnotateTarget(["left", "right"])(Chain)
    assert ar.passes.AnnotateTarget(["left", "right"])(once).script() == once.script()


def test_an_unknown_target_is_an_error():
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'nobody'"):
        ar.passes.AnnotateTarget(["nobody"])


def test_a_rule_that_fails_is_named():
    @ar.register_rule("sketch", "relax.tanh")
    def broken(op):
        return op.attrs["no such attribute"]

    with pytest.raises(ar.RuleError, match=r"rule of .sketch. for relax\.tanh at .c. .* failed: KeyError"):
        ar.passes.AnnotateTarget(["sketch"])(Chain)


@pytest.mark.parametrize("answer", [None, "", 1.5, []])
def test_an_answer_that_is_no_answer_is_an_error(answer):
    ar.register_rule("sketch", "relax.tanh")(lambda _op: answer)
    with pytest.raises(ar.RuleError, match="answer True, False, or the reason as a string"):
        ar.passes.AnnotateTarget(["sketch"])(Chain)


def test_a_module_that_is_not_well_formed_is_an_error():
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    stray = relax.Var("stray", relax.TensorType((2,), "float32"))
    mod = tvm.IRModule({"main": relax.Function([x], relax.SeqExpr([], stray), stray.ty)})
    claim_ops("sketch", "relax.tanh")
    with pytest.raises(ar.InvalidModuleError, match="not well formed"):
        ar.passes.AnnotateTarget(["sketch"])(mod)


def test_functions_that_a_code_generator_owns_are_left_alone():
    claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.tanh")
    partitioned = ar.partition(Chain, ["sketch"], prepare=False)
    assert ar.passes.AnnotateTarget(["sketch"])(partitioned).script() == partitioned.script()
