"""PartitionGraph: the form it leaves, for every shape of output, constant, shape and module."""

# Assignments in TVMScript are bindings, not Python variables:
# ruff: noqa: F841, RET504

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given
from kits.passes.partition_kit import (
    calls_in,
    claimed,
    disjoint_sets,
    external,
    partitioned,
    register_targets,
    require_form,
    same_answers,
    tensor,
)
from kits.passes.partition_modules import Before
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


def outputs_of(func):
    result = func.body.body
    return list(result.fields) if isinstance(result, relax.Tuple) else [result]


# -- the expected text of one module -----------------------------------------------------------------


@I.ir_module
class After:
    @R.function
    def alpha_main_0(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")) -> R.Tuple(
        R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")
    ):
        R.func_attr({"Codegen": "alpha"})
        with R.dataflow():
            a: R.Tensor((2, 4), "float32") = R.nn.relu(x)
            b: R.Tensor((2, 4), "float32") = R.add(a, y)
            R.output(a, b)
        return (a, b)

    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
        cls = After
        with R.dataflow():
            whole = cls.alpha_main_0(x, y)
            a = whole[0]
            b = whole[1]
            c = R.tanh(b)
            d = R.multiply(c, a)
            R.output(b, d)
        return (b, d)


def test_a_region_becomes_a_call():
    tvm.ir.assert_structural_equal(partitioned(Before, alpha=["a b"]), After)


def test_nothing_changes_without_regions():
    assert ar.passes.PartitionGraph()(Before).same_as(Before)


# -- shapes of output --------------------------------------------------------------------------------


@I.ir_module
class Outputs:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), p: R.Tuple(R.Tensor((2, 4), "float32"))):
        with R.dataflow():
            a = R.negative(x)
            b = R.nn.relu(a)
            s = R.split(b, 2, axis=1)
            s0 = s[0]
            dead = R.exp(a)
            t = (a, (b, x), a)
            inner = t[1]
            name = b
            c = R.tanh(b)
            q = p[0]
            R.output(a, b, s, s0, t, inner, name, c, q)
        return (a, s, t, inner, name, c, a, s0, q)


@pytest.mark.parametrize(
    ("region", "results"),
    [
        ("b", ["b"]),  # one
        ("a b", ["a", "b"]),  # several, one of them also used inside
        ("a b dead", ["a", "b"]),  # a dead one is not made
        ("s", ["s_0", "s_1"]),  # a tuple-valued op as the only output
        ("s s0", ["s0", "s_1"]),  # a field with a name of its own is one output with its tuple
        ("b name", ["b"]),  # two names of one value
        ("a b t", ["a", "b"]),  # a nested tuple, put together again outside
        ("a b t inner", ["a", "b"]),
        ("c", ["c"]),  # the function's result
    ],
)
def test_the_outputs_are_distinct_tensors(region, results):
    part = partitioned(Outputs, alpha=[region])
    (func,) = external(part).values()
    assert [output.name for output in outputs_of(func)] == results
    same_answers(
        claimed(Outputs, {"main": {"alpha": [region]}}),
        part,
        tensor(2, 4),
        tvm.runtime.convert([tensor(2, 4)]),
    )


@pytest.mark.parametrize("region", ["dead", "q", "t", "inner t", "name"])
def test_a_region_that_makes_nothing_anybody_uses_stays(region):
    assert not external(partitioned(Outputs, alpha=[region]))


@I.ir_module
class Inputs:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"),
        p: R.Tuple(
            R.Tensor((2, 4), "float32"), R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32"))
        ),
    ):
        with R.dataflow():
            p0 = p[0]
            again = p[0]
            pair = p[1]
            second = pair[1]
            name = x
            a = R.add(p0, again)
            b = R.concat(pair, axis=1)
            c = R.add(x, name)
            d = R.add(second, second)
            e = R.concat(pair, axis=0)
            z = R.zeros(R.shape([2, 4]), "float32")
            R.output(a, b, c, d, e, z)
        return (a, b, c, d, e, z)


@pytest.mark.parametrize(
    ("region", "params"),
    [
        ("a", ["p_0"]),  # one value under two names
        ("again a", ["p_0"]),
        ("b", ["p_1_0", "p_1_1"]),  # a tuple, field by field
        ("pair b", ["p_1_0", "p_1_1"]),
        ("b second d", ["p_1_1", "p_1_0"]),  # the tuple and a field of it
        ("second d", ["p_1_1"]),  # one field only
        ("c", ["x"]),
        ("name c", ["x"]),
        ("z", []),  # nothing at all
    ],
)
def test_each_distinct_value_enters_once(region, params):
    part = partitioned(Inputs, alpha=[region])
    (func,) = external(part).values()
    assert [param.name for param in func.params] == params
    arguments = [tensor(2, 4), tvm.runtime.convert([tensor(2, 4), [tensor(2, 4), tensor(2, 4, seed=1)]])]
    same_answers(claimed(Inputs, {"main": {"alpha": [region]}}), part, *arguments)


def test_a_field_is_read_once_for_several_regions():
    part = partitioned(Inputs, alpha=["b"], beta=["e"])
    names = [binding.var.name for block in part["main"].body.blocks for binding in block.bindings]
    assert names.count("p_1_0") == 1
    first, second = calls_in(part["main"])
    assert [arg.same_as(other) for arg, other in zip(first.args, second.args, strict=True)] == [True, True]


# -- composites --------------------------------------------------------------------------------------


def composites_of(func):
    return [
        binding.value
        for block in func.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Function)
    ]


def test_composites_are_local_functions_named_after_their_pattern():
    part = partitioned(Before, alpha=["a b", ar.Composite("alpha.add", ("b",))])
    (func,) = external(part).values()
    (composite,) = composites_of(func)
    assert str(composite.attrs["Composite"]) == "alpha.add"
    assert [param.name for param in composite.params] == ["a", "y"]


def test_a_region_of_tvms_own_patterns_is_what_tvms_own_partitioner_makes():
    @I.ir_module
    class Convolution:
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w)
                b = R.nn.relu(a)
                R.output(b)
            return b

    pattern = is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))
    ar.register_pattern("dnnl_like", "dnnl.conv2d_relu", pattern)
    ours = ar.partition(Convolution, ["dnnl_like"], prepare=False)
    theirs = relax.transform.FuseOpsByPattern([("dnnl.conv2d_relu", pattern)])(Convolution)
    theirs = relax.transform.MergeCompositeFunctions()(theirs)
    (left,), (right,) = (
        [
            composite
            for func in mod.functions.values()
            if "Codegen" in func.attrs
            for composite in composites_of(func)
        ]
        for mod in (ours, theirs)
    )
    tvm.ir.assert_structural_equal(left, right)


def test_a_composite_takes_a_tuple_as_tvms_do():
    part = partitioned(Inputs, alpha=["pair b", ar.Composite("alpha.concat", ("b",))])
    (func,) = external(part).values()
    (composite,) = composites_of(func)
    assert isinstance(composite.params[0].ty, tvm.ir.TupleType)
    assert not any(isinstance(param.ty, tvm.ir.TupleType) for param in func.params)


def test_a_composite_that_something_between_its_ends_needs_is_refused():
    with pytest.raises(ar.RegionCycleError, match=r"'a', 'd' cannot run as one unit.*split them"):
        partitioned(Before, alpha=["a b c d", ar.Composite("alpha.odd", ("a", "d"))])


def test_overlapping_regions_are_refused():
    with pytest.raises(ar.OverlappingRegionsError, match=r"'a' lies in .* run ResolveConflicts"):
        partitioned(Before, alpha=["a b"], beta=["a"])


def test_regions_that_need_each_other_are_refused():
    with pytest.raises(ar.RegionCycleError, match=r"depend on each other"):
        partitioned(Before, alpha=["a d", "b c"])


# -- modules -----------------------------------------------------------------------------------------


@I.ir_module
class Many:
    I.module_attrs({"kept": 7})

    @T.prim_func(private=True)
    def kernel(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i in range(2):
            b[i] = a[i] + T.float32(1)

    @R.function
    def forward(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
        cls = Many
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.call_tir(cls.kernel, (a,), out_ty=R.Tensor((2,), "float32"))
            R.output(b)
        c = R.negative(b)
        if flag:
            d = R.exp(c)
            e = R.add(d, b)
        else:
            e = R.multiply(c, c)
        return e

    @R.function(private=True)
    def secret(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def local(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.negative(y)
            return z

        u = R.nn.relu(x)
        w = local(u)
        return w

    @R.function
    def owned(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"Codegen": "somebody"})
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y


def test_every_function_is_partitioned_except_those_that_are_external_already():
    mod = claimed(Many, {"forward": {"alpha": ["a b", "c", "d"]}, "secret": {"alpha": ["u", "z"]}})
    part = ar.passes.PartitionGraph()(mod)
    require_form(part)
    assert sorted(external(part)) == [
        "alpha_forward_0",
        "alpha_forward_1",
        "alpha_forward_2",
        "alpha_secret_0",
        "owned",
    ]
    assert part["owned"].same_as(Many["owned"])
    assert part["kernel"].same_as(Many["kernel"])
    assert int(part.attrs["kept"]) == 7
    assert "call_tir" in str(part["alpha_forward_0"])
    # -x of secret's local function is the same region as -b of forward's
    assert str(part["secret"]).count("alpha_forward_1") == 1


def test_the_module_handed_in_stays_as_it_is():
    mod = claimed(Before, {"main": {"alpha": ["a b"]}})
    before = tvm_ffi.structural_hash(mod)
    ar.passes.PartitionGraph()(mod)
    assert tvm_ffi.structural_hash(mod) == before


def test_ordinary_blocks_beside_dataflow_blocks_keep_their_effects_in_order():
    @I.ir_module
    class Effects:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            a = R.nn.relu(x)
            first = R.print(a, format="{}")
            b = R.negative(a)
            second = R.print(b, format="{}")
            with R.dataflow():
                c = R.add(a, b)
                R.output(c)
            return c

    part = partitioned(Effects, alpha=["a b"], beta=["c"])
    names = [binding.var.name for block in part["main"].body.blocks for binding in block.bindings]
    assert names.index("first") < names.index("second")
    assert len(external(part)) == 2


def test_calls_of_packed_functions_can_be_inside():
    @I.ir_module
    class Packed:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.call_dps_packed("somewhere", (a,), out_ty=R.Tensor((2,), "float32"))
                R.output(b)
            return b

    (func,) = external(partitioned(Packed, alpha=["a b"])).values()
    assert "somewhere" in str(func)


# -- laws --------------------------------------------------------------------------------------------


@pytest.mark.campaign
@given(disjoint_sets(Ingredients(arrays=True)))
def test_what_is_left_is_well_formed_and_flat(tally, regions):
    part = ar.passes.PartitionGraph()(tvm.IRModule({"main": regions.annotate()}))
    require_form(part)
    tally["partitioned regions"] += len(regions)
    tally["external functions"] += len(external(part))


RUNNABLE = Ingredients(nodes=8, branches=0, effects=False, local_functions=False, casts=False, arrays=True)


def arguments_of(func):
    def value(ty):
        if isinstance(ty, tvm.ir.TupleType):
            return tvm.runtime.convert([value(part) for part in ty.fields])
        if str(ty.dtype) == "bool":
            return tvm.runtime.tensor(np.array(True))
        return tensor(2, int(ty.shape.values[1]))

    return [value(param.ty) for param in func.params]


@pytest.mark.campaign
@given(disjoint_sets(RUNNABLE))
def test_the_partitioned_module_computes_the_same_bits(tally, regions):
    mod = tvm.IRModule({"main": regions.annotate()})
    part = ar.passes.PartitionGraph()(mod)
    if external(part):
        same_answers(mod, part, *arguments_of(mod["main"]))
        tally["compiled and compared"] += 1


def test_regions_of_a_local_function_share_no_size_with_it():
    mod = tvm.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def inner(y: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
            z = R.nn.relu(y)
            return z

        out: R.Tensor((2, 3), "float32") = inner(x)
        return out
""")
    partitioned = ar.partition(mod, ["dnnl"], cross_compile=True)
    assert len(partitioned.get_global_vars()) == 2
    relax.analysis.well_formed(partitioned)
