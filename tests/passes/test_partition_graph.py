"""PartitionGraph: the form it leaves, for every shape of output, constant, shape and module."""

# Assignments in TVMScript are bindings, not Python variables:
# ruff: noqa: F841, RET504

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given
from partition_kit import (
    array,
    claimed,
    disjoint_sets,
    external,
    flat,
    machine,
    partitioned,
    register_targets,
    require_form,
    stripped,
    unannotated,
)
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.utils import copy_with_new_vars
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.testing.registry import claim_ops, temporary_registrations
from annotated_region.testing.strategies import Ingredients


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


def outputs_of(func):
    result = func.body.body
    return list(result.fields) if isinstance(result, relax.Tuple) else [result]


def calls_in(func):
    return [
        binding.value
        for block in func.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, tvm.ir.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    ]


def same_answers(mod, part, *arguments):
    expected = flat(machine(unannotated(mod))["main"](*arguments))
    found = flat(machine(stripped(part))["main"](*arguments))
    assert len(expected) == len(found)
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_array_equal(left, right)


def tensor(*shape, seed=0):
    return tvm.runtime.tensor(array(*shape, seed=seed))


# -- the expected text of one module -----------------------------------------------------------------


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, y)
            c = R.tanh(b)
            d = R.multiply(c, a)
            R.output(b, d)
        return (b, d)


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
    with pytest.raises(ar.RegionCycleError, match=r"'a', 'd' cannot run as a whole.*split them"):
        partitioned(Before, alpha=["a b c d", ar.Composite("alpha.odd", ("a", "d"))])


def test_overlapping_regions_are_refused():
    with pytest.raises(ar.OverlappingRegionsError, match=r"'a' lies in .* run ResolveConflicts"):
        partitioned(Before, alpha=["a b"], beta=["a"])


def test_regions_that_need_each_other_are_refused():
    with pytest.raises(ar.RegionCycleError, match=r"need each other's results"):
        partitioned(Before, alpha=["a d", "b c"])


# -- constants ---------------------------------------------------------------------------------------

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
DTYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")


def with_constants(dtype, *contents):
    """A module that adds constants to its argument, one after the other, with a tanh between them."""
    x = relax.Var("x", relax.TensorType([2], dtype))
    builder = relax.BlockBuilder()
    value = x
    with builder.function("main", [x]):
        with builder.dataflow():
            for index, content in enumerate(contents):
                constant = relax.const(np.asarray(content), dtype)
                value = builder.emit(relax.op.add(value, constant), name_hint=f"a{index}")
                value = builder.emit(relax.op.negative(value), name_hint=f"n{index}")
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", ["alpha", "beta"])
def test_constants_of_every_dtype_are_bound_or_passed(dtype, target):
    mod = with_constants(dtype, [1, 1])
    part = partitioned(mod, **{target: ["a0"]})
    (func,) = external(part).values()
    assert len(func.params) == (1 if target == "alpha" else 2)
    back = ar.passes.InlinePartitions()(part)
    tvm.ir.assert_structural_equal(back, mod)


@pytest.mark.parametrize("target", ["alpha", "beta"])
def test_equal_regions_share_a_function_when_their_constants_are_equal_too(target):
    mod = with_constants("float32", [1, 2], [1, 2], [1, 3])
    names = sorted(external(partitioned(mod, **{target: ["a0", "a1", "a2"]})))
    # Constants that are passed are no part of the function.
    assert names == (["alpha_main_0", "alpha_main_1"] if target == "alpha" else ["beta_main_0"])


def test_not_a_number_is_equal_to_itself_when_functions_are_compared():
    mod = with_constants("float32", [np.nan, 0.0], [np.nan, 0.0], [np.nan, -0.0])
    assert len(external(partitioned(mod, alpha=["a0", "a1", "a2"]))) == 2


def test_a_backend_that_does_not_share_gets_a_function_for_each_region():
    mod = with_constants("float32", [1, 2], [1, 2])
    assert sorted(external(partitioned(mod, gamma=["a0", "a1"]))) == ["gamma_main_0", "gamma_main_1"]


def test_a_weight_of_two_regions_stays_one_object():
    weight = relax.const(array(2), "float32")
    x = relax.Var("x", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        a = builder.emit(relax.op.add(x, weight), name_hint="a")
        b = builder.emit(relax.op.multiply(a, weight), name_hint="b")
        builder.emit_func_output(b)
    part = partitioned(builder.get(), alpha=["a", "b"])
    used = [
        arg
        for func in external(part).values()
        for block in func.body.blocks
        for binding in block.bindings
        for arg in binding.value.args
        if isinstance(arg, tvm.ir.GenericConst)
    ]
    assert len(used) == 2
    assert used[0].same_as(used[1])


@pytest.mark.parametrize(("target", "count"), [("alpha", 1), ("beta", 3)])
@pytest.mark.parametrize("region", ["t c", "c"])
def test_a_tuple_of_constants_is_bound_or_passed(target, count, region):
    x = relax.Var("x", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            one, two = (relax.const(np.full(2, value), "float32") for value in (1.0, 2.0))
            whole = builder.emit(relax.Tuple([one, x, two]), name_hint="t")
            c = builder.emit_output(relax.op.concat(whole, axis=0), name_hint="c")
        builder.emit_func_output(c)
    mod = builder.get()
    part = partitioned(mod, **{target: [region]})
    (func,) = external(part).values()
    assert len(func.params) == count
    same_answers(mod, part, tensor(2))


# -- symbolic shapes ---------------------------------------------------------------------------------


@I.ir_module
class Symbolic:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        h: R.Tensor(("n // 2", 4), "float32"),
        k: R.Tensor(("m",), "float32"),
    ):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(h)
            c = R.reshape(a, R.shape([n * 4]))
            d = R.full(R.shape([n * m]), R.const(1.5, "float32"), "float32")
            e = R.arange(0, n * m, 2, "float32")
            f = R.strided_slice(a, (0,), (0,), (n // 2,), assume_inbound=True)
            R.output(a, b, c, d, e, f)
        return (a, b, c, d, e, f, k)


@pytest.mark.parametrize(
    ("region", "hidden"),
    [
        ("a", []),
        ("a c", []),  # n is revealed by x
        ("b", ["n"]),  # n // 2 reveals nothing
        ("d", ["n", "m"]),  # no parameter at all
        ("e", ["n", "m"]),  # in an argument that is a number
        ("a f", []),
        ("b d e", ["n", "m"]),
    ],
)
@pytest.mark.parametrize("composite", [False, True])
def test_shape_variables_are_closed_over_the_parameters(region, hidden, composite):
    claims = [region]
    if composite:
        claims += [ar.Composite("alpha.one", (name,)) for name in region.split()]
    part = partitioned(Symbolic, alpha=claims)
    (func,) = external(part).values()
    assert not relax.analysis.free_symbolic_vars(func)
    shapes = [param for param in func.params if isinstance(param.ty, relax.ShapeType)]
    assert sorted(var.name for shape in shapes for var in shape.ty.values) == sorted(hidden)
    mod = claimed(Symbolic, {"main": {"alpha": claims}})
    same_answers(mod, part, tensor(6, 4), tensor(3, 4), tensor(5))


def test_the_type_at_the_call_is_in_terms_of_the_caller():
    part = partitioned(Symbolic, alpha=["b"])
    (call,) = calls_in(part["main"])
    caller = {hash(var) for var in relax.analysis.tir_vars_in_type(part["main"].params[1].ty)}
    assert {hash(var) for var in relax.analysis.tir_vars_in_type(call.ty)} == caller


def test_shapes_that_are_not_known_at_all_stay_unknown():
    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

    (func,) = external(partitioned(Unknown, alpha=["a"])).values()
    assert func.ret_ty.shape is None


def test_a_number_that_is_a_parameter_enters_as_a_shape():
    n = relax.Var("n", tvm.ir.PrimType("int64"))
    x = relax.Var("x", relax.TensorType([4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, n]):
        with builder.dataflow():
            a = builder.emit(relax.op.arange(0, n, 1, "float32"), name_hint="a")
            b = builder.emit_output(relax.op.nn.relu(a), name_hint="b")
        builder.emit_func_output(b)
    (func,) = external(partitioned(builder.get(), alpha=["a b"])).values()
    assert [str(type(param.ty).__name__) for param in func.params] == ["ShapeType"]


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


# -- names -------------------------------------------------------------------------------------------


def test_names_are_numbered_in_program_order_for_each_caller():
    part = partitioned(Before, alpha=["a", "d"], beta=["b", "c"])
    assert sorted(external(part)) == ["alpha_main_0", "alpha_main_1", "beta_main_0", "beta_main_1"]
    assert "relu" in str(part["alpha_main_0"])


def test_a_name_that_is_taken_is_passed_over():
    func = copy_with_new_vars(Before["main"]).with_attr("global_symbol", "alpha_main_0")
    mod = tvm.IRModule({"main": Before["main"], "alpha_main_0": func})
    assert "alpha_main_1" in external(partitioned(mod, alpha=["a b"]))


def test_a_symbol_of_code_that_was_generated_before_is_passed_over():
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    earlier = create("// made before", "cc", ["alpha_main_0"], [])
    mod = Before.with_attr("external_mods", [earlier])
    part = partitioned(mod, alpha=["a b"])
    assert sorted(external(part)) == ["alpha_main_1"]
    assert part.attrs["external_mods"][0].same_as(earlier)


@pytest.mark.parametrize(
    ("target", "function", "name"),
    [
        ("my.target-2", "main", "my_target_2_main_0"),
        ("3d", "f", "_3d_f_0"),
        ("übung", "main", "_bung_main_0"),
    ],
)
def test_names_are_identifiers(target, function, name):
    ar.register_backend(target)
    func = Before["main"].with_attr("global_symbol", function)
    part = ar.passes.PartitionGraph()(claimed(tvm.IRModule({function: func}), {function: {target: ["a b"]}}))
    assert list(external(part)) == [name]


def edited(extra_before=0, extra_in_first=0, extra_after=0):
    """Two regions of different ops, with more host ops before, more ops in the first, a region after."""
    x = relax.Var("x", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(extra_before):
                value = builder.emit(relax.op.exp(value))
            value = builder.emit(relax.op.nn.relu(value))
            for _ in range(extra_in_first):
                value = builder.emit(relax.op.nn.relu(value))
            value = builder.emit(relax.op.tanh(value))
            value = builder.emit(relax.op.add(value, value))
            for _ in range(extra_after):
                value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.tanh(value))))
            result = builder.emit_output(relax.op.tanh(value))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("edit", ["extra_before", "extra_in_first", "extra_after"])
def test_a_name_survives_edits_elsewhere(edit):
    claim_ops("alpha", "relax.nn.relu", "relax.add")
    before = external(ar.partition(edited(), ["alpha"], prepare=False))
    after = external(ar.partition(edited(**{edit: 2}), ["alpha"], prepare=False))
    assert str(before["alpha_main_1"]).count("R.add") == 1
    tvm.ir.assert_structural_equal(before["alpha_main_1"], after["alpha_main_1"])


def test_a_name_survives_a_new_function():
    mod = tvm.IRModule(
        {
            "main": Before["main"],
            "before": copy_with_new_vars(Before["main"]).with_attr("global_symbol", "before"),
        }
    )
    part = ar.passes.PartitionGraph()(
        claimed(mod, {"main": {"gamma": ["a b"]}, "before": {"gamma": ["a b"]}})
    )
    assert sorted(external(part)) == ["gamma_before_0", "gamma_main_0"]


PROGRAM = """
from partition_kit import partitioned, register_targets
from test_partition_graph import Symbolic
register_targets()
print(partitioned(Symbolic, alpha=["b d e", "a f"], beta=["c"]).script())
"""


def test_the_text_is_the_same_in_every_process():
    tests = Path(__file__).parents[1]
    texts = set()
    for seed in ("0", "17"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{tests}:{tests / 'passes'}"}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        texts.add(done.stdout)
    assert len(texts) == 1


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
