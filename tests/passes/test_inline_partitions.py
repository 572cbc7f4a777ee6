"""InlinePartitions restores the module as it was before partitioning."""

# Assignments in TVMScript are bindings, not Python variables:
# ruff: noqa: RET504, SIM108

import pytest
import tvm
import tvm_ffi
from hypothesis import given
from kits.passes.partition_kit import (
    claimed,
    disjoint_sets,
    external,
    inline,
    listing,
    partitioned,
    register_targets,
    require_form,
    same_up_to_order,
    size,
    unannotated,
)
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.testing.registry import temporary_registrations
from annotated_region.testing.strategies import Ingredients


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


@I.ir_module
class Plain:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        h: R.Tensor(("n // 2", 4), "float32"),
        p: R.Tuple(R.Tensor(("n", 4), "float32"), R.Tensor(("n", 4), "float32")),
    ):
        n = T.int64()
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.concat(p, axis=1)
            s = R.split(b, 2, axis=1)
            s0 = s[0]
            c = R.add(s0, a)
            t = (c, R.const(2.0, "float32"))
            half = R.negative(h)
            z = R.full(R.shape([n, 3]), R.const(1.5, "float32"), "float32")
            e = R.tanh(c)
            f = R.add(e, a)
            R.output(s, t, half, z, f)
        return (s, t, half, z, f)


REGIONS = [
    ["a"],
    ["a c"],
    ["b"],
    ["b s"],
    ["s"],
    ["s s0"],
    ["b s s0 a c"],
    ["a b s s0 c t"],
    ["half"],
    ["z"],
    ["half z"],
    ["e f"],
    ["a", "b s", "s0 c t", "half", "z", "e f"],
    ["a c", ar.Composite("alpha.add", ("c",))],
    ["half", ar.Composite("alpha.half", ("half",))],
    ["b s s0 c", ar.Composite("alpha.split", ("b", "s"))],
    ["b", ar.Composite("alpha.concat", ("b",))],
    ["a b s s0 c", ar.Composite("alpha.all", ("b", "s", "s0", "c"))],
]


@pytest.mark.parametrize("regions", REGIONS, ids=str)
@pytest.mark.parametrize("target", ["alpha", "beta"])
def test_it_is_the_inverse_of_partitioning(regions, target):
    part = partitioned(Plain, **{target: regions})
    assert external(part)
    back = inline(part)
    assert [name.name_hint for name in back.get_global_vars()] == ["main"]
    assert same_up_to_order(back["main"], Plain["main"])
    assert size(back["main"]) == size(Plain["main"])


def test_the_names_of_values_are_the_callers():
    part = partitioned(Plain, alpha=["a b s s0 c t"])
    names = {binding.var.name for binding in inline(part)["main"].body.blocks[0].bindings}
    assert names == {binding.var.name for binding in Plain["main"].body.blocks[0].bindings}


def test_bindings_that_never_moved_stay_where_they_were():
    tvm.ir.assert_structural_equal(inline(partitioned(Plain, alpha=["a"], beta=["e f"])), Plain)


def test_a_module_without_external_functions_is_left_alone():
    assert ar.passes.InlinePartitions()(Plain).same_as(Plain)


TWO = {"alpha": ["a", "e f"], "beta": ["b s"]}


def test_one_target_of_two_is_inlined():
    part = partitioned(Plain, **TWO)
    back = inline(part, ["alpha"])
    require_form(back)
    assert {str(func.attrs["Codegen"]) for func in external(back).values()} == {"beta"}
    again = claimed(Plain, {"main": {"beta": TWO["beta"]}})
    assert listing(back["main"]) == listing(ar.passes.PartitionGraph()(again)["main"])


@pytest.mark.parametrize("order", [["alpha", "beta"], ["beta", "alpha"]])
def test_targets_are_inlined_in_any_order(order):
    back = partitioned(Plain, **TWO)
    for target in order:
        back = inline(back, target)
    assert same_up_to_order(back["main"], Plain["main"])


@pytest.mark.parametrize("order", [["alpha", "beta"], ["beta", "alpha"]])
def test_targets_that_were_partitioned_one_after_the_other_are_inlined_in_any_order(order):
    part = partitioned(Plain, alpha=["a", "e f"])
    variables = {binding.var.name: binding.var for binding in part["main"].body.blocks[0].bindings}
    claims = {"beta": [(variables["b"], variables["s"])]}
    again = ar.AnnotatedRegionSet.from_claims(part["main"], claims, "main").annotate()
    part = part.clone()
    part.update_func(part.get_global_var("main"), again)
    back = ar.passes.PartitionGraph()(part)
    assert len(external(back)) == 3
    for target in order:
        back = inline(back, [target])
    assert same_up_to_order(back["main"], Plain["main"])


def test_a_region_over_calls_of_another_target_is_undone_from_either_side():
    part = partitioned(Plain, alpha=["a"])
    variables = {binding.var.name: binding.var for binding in part["main"].body.blocks[0].bindings}
    around = {"beta": [(variables["a"], variables["c"])]}
    func = ar.AnnotatedRegionSet.from_claims(part["main"], around, "main").annotate()
    part = part.clone()
    part.update_func(part.get_global_var("main"), func)
    nested = ar.passes.PartitionGraph()(part)
    assert "alpha_main_0" in str(nested["beta_main_0"])
    for order in (["alpha"], ["beta"]), (["beta"], ["alpha"]), (None,):
        back = nested
        for targets in order:
            back = inline(back, targets)
        assert same_up_to_order(back["main"], Plain["main"])


def test_a_shared_function_is_inlined_at_each_call():
    @I.ir_module
    class Twice:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(a)
                c = R.nn.relu(b)
                R.output(c)
            return c

    part = partitioned(Twice, alpha=["a", "c"])
    assert len(external(part)) == 1
    tvm.ir.assert_structural_equal(inline(part), Twice)


def test_what_tvms_own_partitioner_made_is_undone():
    @I.ir_module
    class Convolution:
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w)
                b = R.nn.relu(a)
                c = R.tanh(b)
                d = R.nn.relu(c)
                R.output(b, d)
            return (b, d)

    patterns = [
        ("other.conv2d_relu", is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))),
        ("other.relu", is_op("relax.nn.relu")(wildcard())),
    ]
    part = relax.transform.FuseOpsByPattern(patterns)(Convolution)
    part = relax.transform.MergeCompositeFunctions()(part)
    assert len(external(part)) == 2
    assert listing(inline(part)["main"]) == listing(Convolution["main"])


def test_a_function_that_branches_is_left_alone():
    @I.ir_module
    class Branching:
        @R.function
        def external(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Codegen": "somebody"})
            if flag:
                y = R.nn.relu(x)
            else:
                y = R.negative(x)
            return y

        @R.function
        def main(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
            cls = Branching
            y = cls.external(x, flag)
            return y

    assert ar.passes.InlinePartitions()(Branching).same_as(Branching)


def test_a_target_that_nobody_knows_is_an_error():
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'alhpa'"):
        ar.passes.InlinePartitions(["alhpa"])(partitioned(Plain, alpha=["a"]))


def test_a_known_target_without_external_functions_is_none():
    part = partitioned(Plain, alpha=["a"])
    assert ar.passes.InlinePartitions(["beta"])(part).same_as(part)


def test_the_module_handed_in_stays_as_it_is():
    part = partitioned(Plain, **TWO)
    before = tvm_ffi.structural_hash(part)
    ar.passes.InlinePartitions()(part)
    assert tvm_ffi.structural_hash(part) == before


# -- laws --------------------------------------------------------------------------------------------


@pytest.mark.campaign
@given(disjoint_sets(Ingredients(arrays=True)))
def test_what_is_inlined_computes_what_the_program_said_and_nothing_is_left_over(tally, regions):
    mod = tvm.IRModule({"main": regions.annotate()})
    plain = unannotated(mod)["main"]
    part = ar.passes.PartitionGraph()(mod)
    require_form(part)
    back = inline(part)
    assert [name.name_hint for name in back.get_global_vars()] == ["main"]
    assert listing(back["main"]) == listing(plain)
    assert size(back["main"]) <= size(plain)
    tally["inlined"] += 1
    tally["inlined, structurally equal up to order"] += same_up_to_order(back["main"], plain)
