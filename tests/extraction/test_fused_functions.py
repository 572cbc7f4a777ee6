"""extract_fused_functions: every function that is called, alone, and computing what it computes inside."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from extraction_modules import every_kind_of_call, small_network
from hypothesis import given
from naive_walk import fuse
from tvm import relax

import annotated_region as ar
from annotated_region.testing import Ingredients, modules
from annotated_region.testing.graphs import SIX_OPS, module_of


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
    with pytest.raises(ar.InvalidModuleError, match="got dict"):
        ar.extract_fused_functions(dict(mod.functions_items()))


def calls_inside(mod, *arguments):
    """Name, arguments before and after, of every call of a TensorIR function while `mod` runs."""
    machine = relax.VirtualMachine(tvm.compile(fuse(mod), "llvm"), tvm.cpu())
    primitive = set(names_of(ar.extract_fused_functions(mod)))
    calls, running = [], []

    def watch(_function, name, before, _result, *values):
        if name in primitive:
            numbers = [value.numpy().copy() for value in values if isinstance(value, tvm.runtime.Tensor)]
            if before:
                running.append(numbers)
            else:
                calls.append((name, running.pop(), numbers))

    machine.set_instrument(watch)
    machine["main"](*arguments)
    return calls


NETWORKS = {
    "network": (small_network, [(1, 4, 6, 6)]),
    "six ops": (lambda: module_of(SIX_OPS), [(2, 3), (2, 3)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_built_alone_it_computes_what_it_does_inside(name):
    make, shapes = NETWORKS[name]
    mod = make()
    random = np.random.default_rng(0)
    inputs = [tvm.runtime.tensor(random.standard_normal(shape, dtype=np.float32)) for shape in shapes]
    extracted = ar.extract_fused_functions(mod)
    calls = calls_inside(mod, *inputs)
    assert {name for name, _before, _after in calls} == set(names_of(extracted))
    for name, before, after in calls:
        alone = tvm.compile(tvm.IRModule({name: extracted[name]}), "llvm")
        buffers = [tvm.runtime.tensor(value) for value in before]
        alone[name](*buffers)
        for buffer, expected in zip(buffers, after, strict=True):
            np.testing.assert_allclose(buffer.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_as_relax_each_function_can_be_built_and_run_alone():
    mod = small_network()
    functions = ar.extract_fused_functions(mod, lowered=False)
    relax.analysis.well_formed(functions)
    machine = relax.VirtualMachine(tvm.compile(functions, "llvm"), tvm.cpu())
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


@given(modules(Ingredients(nodes=8, effects=False)))
def test_generated_modules_are_extracted_in_both_forms(mod):
    lowered = ar.extract_fused_functions(mod)
    as_relax = ar.extract_fused_functions(mod, lowered=False)
    relax.analysis.well_formed(as_relax)
    entries = [f for _name, f in as_relax.functions_items() if isinstance(f, relax.Function)]
    assert len(entries) == len(lowered.get_global_vars())
