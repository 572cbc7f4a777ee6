"""What went wrong for users of other partitioners, each by name, on small graphs of the same kind."""

# Assignments in TVMScript are bindings, not Python variables:
# ruff: noqa: F841

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.passes.partition_kit import (
    array,
    claimed,
    external,
    flat,
    inline,
    listing,
    machine,
    partitioned,
    register_targets,
    require_form,
    stripped,
)
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.compilation.code_generation import generate_code
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


def run(mod, *arguments, name="main"):
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in arguments]
    return flat(machine(mod)[name](*given))


def agree(mod, part, *arguments, name="main"):
    require_form(part)
    for left, right in zip(
        run(mod, *arguments, name=name), run(stripped(part), *arguments, name=name), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def partition(mod, *targets):
    return ar.partition(mod, list(targets), prepare=False)


X = array(2, 4)


def test_split_and_concat_chains_keep_which_output_is_which():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                s = R.split(x, 4, axis=1)
                c = R.concat((s[2], s[0]), axis=1)
                t = R.split(c, 2, axis=1)
                d = R.concat((t[1], s[3], t[0], s[1]), axis=1)
                u = R.tanh(d)
                v = R.split(u, 2, axis=1)
                w = R.subtract(v[1], v[0])
                R.output(w, s)
            return (w, s[3], s[1])

    claim_ops("alpha", "relax.split", "relax.concat")
    agree(Mod, partition(Mod, "alpha"), X)


def test_lowered_and_unlowered_calls_stand_side_by_side():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def plus_one(a: T.Buffer((2, 4), "float32"), b: T.Buffer((2, 4), "float32")):
            T.func_attr({"tirx.noalias": True})
            for i, j in T.grid(2, 4):
                b[i, j] = a[i, j] + T.float32(1)

        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            cls = Mod
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.call_tir(cls.plus_one, (a,), out_ty=R.Tensor((2, 4), "float32"))
                c = R.add(a, b)
                d = R.call_tir(cls.plus_one, (c,), out_ty=R.Tensor((2, 4), "float32"))
                R.output(d)
            return d

    claim_ops("alpha", "relax.nn.relu", "relax.add")
    part = partition(Mod, "alpha")
    assert len(external(part)) == 2
    agree(Mod, part, X)
    agree(Mod, partitioned(Mod, alpha=["a b c"]), X)


@I.ir_module
class NonCalls:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"), p: R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32"))
    ):
        with R.dataflow():
            k = R.const(2.0, "float32")
            shape = R.shape([4, 2])
            t = (x, p[1])
            a = R.concat(t, axis=0)
            b = R.reshape(p[0], shape)
            c = R.multiply(k, x)
            d = R.add(k, k)
            R.output(a, b, c, d, k)
        return (a, b, c, d, k)


@pytest.mark.parametrize("region", ["a", "t a", "b", "c", "d", "t a b c d"])
@pytest.mark.parametrize("target", ["alpha", "beta"])
def test_inputs_that_are_no_calls(region, target):
    part = partitioned(NonCalls, **{target: [region]})
    agree(NonCalls, part, X, tvm.runtime.convert([tvm.runtime.tensor(X), tvm.runtime.tensor(-X)]))


def test_two_matches_that_share_an_add_do_not_both_take_it():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.nn.relu(a)
                c = R.multiply(b, b)
                R.output(c)
            return c

    add = is_op("relax.add")(wildcard(), wildcard())
    relu = is_op("relax.nn.relu")
    ar.register_pattern("alpha", "alpha.add_relu", relu(add))
    part_of_more = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    ar.register_pattern("alpha", "alpha.square", is_op("relax.multiply")(part_of_more, wildcard()))
    claim_ops("alpha", "relax.multiply", "relax.add", "relax.nn.relu")
    part = partition(Mod, "alpha")
    composites = str(part).count('"Composite"')
    assert composites == 1
    agree(Mod, part, X, -X)


def test_a_pattern_whose_intermediate_value_leaks_is_not_taken():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                c = R.tanh(a)
                R.output(b, c)
            return (b, c)

    both = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    ar.register_pattern("alpha", "alpha.add_relu", both)
    assert not external(partition(Mod, "alpha"))
    claim_ops("alpha", "relax.add")
    part = partition(Mod, "alpha")
    assert "Composite" not in str(part)
    agree(Mod, part, X)


def test_a_composite_whose_value_is_used_in_its_region_returns_it_too():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                c = R.multiply(a, b)
                R.output(c)
            return c

    agree(Mod, partitioned(Mod, alpha=["a b c", ar.Composite("alpha.add_relu", ("a", "b"))]), X)


def test_two_backends_in_sequence_keep_both_modules():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.multiply(x, R.const(2.0, "float32"))
                b = R.tanh(a)
                c = R.add(b, R.const(3.0, "float32"))
                R.output(c)
            return c

    def generator(functions, _options, names):
        create = tvm.get_global_func("runtime.CSourceModuleCreate")
        symbols = [str(function.attrs["global_symbol"]) for function in functions]
        return [create("// nothing", "cc", symbols, sorted(names.values()))]

    for target, op in (("one", "relax.multiply"), ("other", "relax.add")):
        claim_ops(target, op)
        tvm_ffi.register_global_func(f"relax.ext.{target}", generator, override=True)
    generated = Mod
    for target in ("one", "other"):
        generated = generate_code(partition(generated, target), {})
    modules = list(generated.attrs["external_mods"])
    assert [module.implements_function("one_main_0") for module in modules] == [True, False]
    assert sorted(map(str, generated.attrs["const_name_to_constant"])) == [
        "one_main_0_one_const_0",
        "other_main_0_other_const_0",
    ]


def test_half_of_a_symbolic_extent():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n // 2", 4), "float32"), y: R.Tensor(("n",), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.add(a, a)
                R.output(b)
            return (b, y)

    claim_ops("alpha", "relax.nn.relu", "relax.add")
    part = partition(Mod, "alpha")
    agree(Mod, part, array(3, 4), array(6))
    tvm.ir.assert_structural_equal(inline(part), Mod)


def test_several_functions_none_of_which_is_main():
    @I.ir_module
    class Mod:
        @R.function
        def encode(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

        @R.function
        def decode(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.negative(x)
                R.output(a)
            return a

    claim_ops("alpha", "relax.nn.relu", "relax.negative")
    part = partition(Mod, "alpha")
    assert sorted(external(part)) == ["alpha_decode_0", "alpha_encode_0"]
    for name in ("encode", "decode"):
        agree(Mod, part, X, name=name)


def test_ops_without_arguments():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                z = R.zeros(R.shape([2, 4]), "float32")
                a = R.add(x, z)
                o = R.ones(R.shape([2, 4]), "float32")
                R.output(a, o)
            return (a, o)

    claim_ops("alpha", "relax.zeros", "relax.ones")
    part = partition(Mod, "alpha")
    assert [len(func.params) for func in external(part).values()] == [0]
    agree(Mod, part, X)


def test_empty_tuples():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                nothing = R.tuple()
                a = R.nn.relu(x)
                both = (a, nothing)
                R.output(both, nothing)
            return (both, nothing)

    for region in ("a", "a both", "nothing a both", "nothing"):
        part = partitioned(Mod, alpha=[region])
        assert len(external(part)) == ("a" in region.split())
        assert listing(inline(part)["main"]) == listing(Mod["main"])


def test_the_same_value_returned_three_times():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = a
                R.output(a, b)
            return (a, b, (a,))

    claim_ops("alpha", "relax.nn.relu")
    part = partition(Mod, "alpha")
    (func,) = external(part).values()
    assert isinstance(func.ret_ty, relax.TensorType)
    agree(Mod, part, X)


def test_a_region_whose_call_must_come_later_than_its_first_op():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(y)
                c = R.add(a, b)
                R.output(c)
            return c

    agree(Mod, partitioned(Mod, alpha=["a c"]), X, -X)


def test_a_tuple_that_another_block_put_together():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                t = (a, x)
                R.output(t)
            with R.dataflow():
                c = R.concat(t, axis=1)
                R.output(c)
            return c

    # The name `a` means nothing in the second block.
    agree(Mod, partitioned(Mod, alpha=["c"]), X)


def test_regions_in_both_branches_of_a_conditional():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), flag: R.Tensor((), "bool")):
            a = R.nn.relu(x)
            if flag:
                b = R.add(a, x)
                c = R.nn.relu(b)
            else:
                d = R.negative(a)
                c = R.nn.relu(d)
            return c

    claim_ops("alpha", "relax.nn.relu", "relax.add", "relax.negative")
    part = partition(Mod, "alpha")
    assert len(external(part)) == 3
    for flag in (True, False):
        agree(Mod, part, X, np.asarray(flag))
    tvm.ir.assert_structural_equal(inline(part), Mod)


def test_two_pipelines_over_one_module():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.negative(a)
                c = R.nn.relu(b)
                R.output(c)
            return c

    claim_ops("alpha", "relax.nn.relu")
    claim_ops("beta", "relax.negative", "relax.nn.relu")
    once = partition(Mod, "alpha")
    twice = partition(once, "beta")
    assert sorted(external(twice)) == ["alpha_main_0", "beta_main_0"]
    # Nothing is left to claim.
    tvm.ir.assert_structural_equal(partition(twice, "alpha", "beta"), twice)
    agree(Mod, twice, X)
    tvm.ir.assert_structural_equal(inline(twice), Mod)


def test_claims_by_hand_are_partitioned_without_any_rule():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

    agree(Mod, ar.passes.PartitionGraph()(claimed(Mod, {"main": {"gamma": ["a"]}})), X)
