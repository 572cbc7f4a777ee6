"""extract_fused_functions: every called function, standalone, with the results that it has in the model."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from calls_inside import differences
from hypothesis import given
from kits.extraction.extraction_modules import every_kind_of_call, small_network
from tvm import relax

import annotated_region as ar
from annotated_region.extraction.fused_functions import fused
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.testing import Ingredients, modules
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.light_models import input_of, light_model, light_module


def names_of(mod):
    return sorted(name.name_hint for name in mod.get_global_vars())


def test_what_is_called_is_extracted_and_nothing_else():
    assert names_of(ar.extract_fused_functions(every_kind_of_call())) == ["again", "in_place", "twice"]


def test_layers_come_fused():
    names = names_of(ar.extract_fused_functions(small_network()))
    assert "fused_conv2d_add_relu" in names
    assert not {"conv2d", "add", "relu"} & set(names)


@pytest.mark.parametrize("lowered", [True, False])
def test_the_module_stays_as_it_is(lowered):
    mod = small_network()
    before = tvm_ffi.structural_hash(mod)
    ar.extract_fused_functions(mod, lowered=lowered)
    assert tvm_ffi.structural_hash(mod) == before


def test_functions_are_public_under_their_name():
    for name, function in ar.extract_fused_functions(small_network()).functions_items():
        assert str(function.attrs["global_symbol"]) == name.name_hint


def test_external_functions_are_not_looked_into():
    partitioned = ar.partition(module_of(SIX_OPS), ["dnnl"], prepare=False)
    assert names_of(ar.extract_fused_functions(partitioned)) == []


def test_a_malformed_module_is_refused():
    mod = small_network()
    with pytest.raises(ar.InvalidModuleError, match="the argument mod is of class dict; pass an IRModule"):
        ar.extract_fused_functions(dict(mod.functions_items()))


NETWORKS = {
    "network": (small_network, [(1, 4, 6, 6)]),
    "six ops": (lambda: module_of(SIX_OPS), [(2, 3), (2, 3)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_built_alone_it_computes_what_it_does_inside(name):
    make, shapes = NETWORKS[name]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape, dtype=np.float32) for shape in shapes]
    assert max(differences(make(), inputs, calls=100).values()) < 1e-6


def test_built_alone_it_computes_what_it_does_inside_a_light_model():
    found = differences(light_module("squeezenet"), list(input_of(light_model("squeezenet")).values()))
    assert len(found) > 10
    assert max(found.values()) < 1e-5


def test_as_relax_each_function_can_be_built_and_run_alone():
    mod = small_network()
    functions = ar.extract_fused_functions(mod, lowered=False)
    relax.analysis.well_formed(functions)
    machine = relax.VirtualMachine(tvm.compile(functions, UNOPTIMIZED), tvm.cpu())
    random = np.random.default_rng(1)
    image, weight, bias = (
        random.standard_normal(shape, dtype=np.float32)
        for shape in ((1, 4, 6, 6), (4, 4, 3, 3), (1, 4, 1, 1))
    )
    got = machine["fused_conv2d_add_relu"](*map(tvm.runtime.tensor, (image, weight, bias))).numpy()
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight) + bias, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_as_relax_an_op_that_stands_alone_is_a_function_too():
    functions = ar.extract_fused_functions(every_kind_of_call(), lowered=False)
    public = [
        name.name_hint
        for name, function in functions.functions_items()
        if isinstance(function, relax.Function)
    ]
    assert sorted(public) == ["fused_again", "fused_in_place", "fused_twice"]
    relax.analysis.well_formed(functions)
    machine = relax.VirtualMachine(tvm.compile(functions, UNOPTIMIZED), tvm.cpu())
    expected = {"fused_again": [0, 2, 4, 6], "fused_in_place": [1, 2, 3, 4], "fused_twice": [0, 2, 4, 6]}
    for name, numbers in expected.items():
        result = machine[name](tvm.runtime.tensor(np.arange(4, dtype="float32")))
        result = result if hasattr(result, "numpy") else result[0]
        np.testing.assert_array_equal(result.numpy(), numbers)


@given(modules(Ingredients(nodes=8, effects=False)))
def test_generated_modules_are_extracted_in_both_forms(mod):
    lowered = ar.extract_fused_functions(mod)
    as_relax = ar.extract_fused_functions(mod, lowered=False)
    relax.analysis.well_formed(as_relax)
    entries = [f for _name, f in as_relax.functions_items() if isinstance(f, relax.Function)]
    assert len(entries) == len(lowered.get_global_vars())


PRIVATE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def own(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("own"):
                v = T.axis.spatial(4, i)
                out[v] = x[v] * T.float32(2)

    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.call_tir(Module.own, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""


def test_private_functions_beside_public_lowered_ones_are_called():
    assert names_of(ar.extract_fused_functions(tvm.script.from_source(PRIVATE))) == ["own"]


@pytest.mark.parametrize("lowered", [True, False])
def test_what_tvm_cannot_lower_is_an_error_of_the_project(lowered):
    mod = tvm.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), shape: R.Shape([6])) -> R.Tensor((6,), "float32"):
        with R.dataflow():
            y = R.reshape(x, shape)
            R.output(y)
        return y
""")
    for use in (
        lambda: ar.extract_fused_functions(mod, lowered=lowered),
        lambda: ar.passes.LegalizeWithOpInfo()(mod),
    ):
        with pytest.raises(ar.InvalidModuleError, match="TVM's pass LegalizeOps fails with the module"):
            use()


def of_a_sum_of_sizes():
    """A function of as many elements as eight sizes say together, and the sizes."""
    sizes = [tvm.tirx.Var(f"n{number}", "int64") for number in range(8)]
    x = relax.Var("x", relax.TensorType([sum(sizes[1:], sizes[0])], "float32"))
    shape = relax.Var("shape", relax.ShapeType(sizes))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, shape]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(out)
    return builder.get(), sizes


def test_sizes_come_in_the_order_of_their_use():
    mod, sizes = of_a_sum_of_sizes()
    function = ar.extract_fused_functions(mod, lowered=False)["fused_tir_exp"]
    *_, last = function.params
    assert [size.name for size in last.ty.values] == [size.name for size in sizes]


HOST = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def is_even(n: T.int64) -> T.bool:
        T.func_attr({"tirx.is_host_func": True})
        return n % T.int64(2) == T.int64(0)

    @T.prim_func(private=True, s_tir=True)
    def own(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("own"):
                v = T.axis.spatial(4, i)
                out[v] = x[v] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), n: T.int64) -> R.Tensor((4,), "float32"):
        even = Module.is_even(n)
        R.assert_op(even, format="odd")
        y = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), 0, "global")
        Module.own(x, y)
        return y
"""


def test_calls_without_call_tir_are_extracted_if_they_write_tensors():
    mod = tvm.script.from_source(HOST)
    assert names_of(ar.extract_fused_functions(mod)) == ["own"]
    alone = ar.extract_fused_functions(mod, lowered=False)
    assert names_of(alone) == ["fused_own", "own"]
    relax.analysis.well_formed(alone)


def test_numbers_come_in_the_order_of_their_use():
    mod, sizes = of_a_sum_of_sizes()
    (function,) = ar.extract_hashed_functions(mod).values()
    _x, *numbers, _out = function.func.params
    assert [number.name for number in numbers] == [size.name for size in sizes]
    relax.analysis.well_formed(fused(mod))
