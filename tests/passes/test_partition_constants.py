"""PartitionGraph: constants that are bound or passed, and shape variables that parameters may not reveal."""

# Assignments in TVMScript are bindings, not Python variables:

import numpy as np
import pytest
import tvm
from kits.passes.partition_kit import (
    array,
    calls_in,
    claimed,
    external,
    partitioned,
    register_targets,
    same_answers,
    tensor,
)
from kits.passes.partition_modules import Symbolic
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.testing.registry import temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


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
