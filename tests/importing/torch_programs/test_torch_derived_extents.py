"""Inputs whose extents are written by a symbol that no input has, such as whole blocks."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.importing.torch_programs.derived_extents import with_derived_extents

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

TARGETS = ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"]


@pytest.fixture
def blocks(with_torch) -> ModuleType:
    return importlib.import_module("kits.importing.torch_blocks")


def built(module: tvm.IRModule) -> relax.VirtualMachine:
    return relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())


def answers(machine: Any, given: Any) -> list[np.ndarray]:
    return [each.numpy() for each in machine["main"](*(tvm.runtime.tensor(each.numpy()) for each in given))]


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["images", "levels", "lines", "pairs"])
def test_whole_blocks_are_computed_as_in_torch(blocks, name, target):
    """Images whose sizes are even, levels of them, lines of odd lengths, and two inputs of one symbol."""
    case = blocks.CASES[name]
    module = ar.from_exported_program(case.program())
    machine = built(ar.partition(module, [target]) if target else module)
    for given in case.calls:
        for found, expected in zip(answers(machine, given), case.answers(given), strict=True):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@needs_onednn
@pytest.mark.parametrize("name", ["images", "levels", "lines", "pairs"])
def test_whole_blocks_are_one_region(blocks, name):
    partitioned = ar.partition(ar.from_exported_program(blocks.CASES[name].program()), ["dnnl"])
    assert not ops_on_host(partitioned, "main")


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
def test_other_extents_are_refused_in_the_call(blocks, target):
    module = ar.from_exported_program(blocks.CASES["images"].program())
    machine = built(ar.partition(module, [target]) if target else module)
    with pytest.raises(ValueError, match=r"must be .* // 2 \* 2, where .* is extent 3 of x"):
        answers(machine, [blocks.seeded(1, 3, 8, 7)])


@pytest.mark.parametrize("name", ["equation", "range"])
def test_what_the_exporter_counted_is_checked_in_the_call(blocks, name):
    """PyTorch's guards name the extent itself, of which it found later that it is a multiple."""
    case = blocks.GUARDED[name]
    machine = built(ar.from_exported_program(case.program()))
    for given in case.calls[:2]:
        np.testing.assert_array_equal(answers(machine, given)[0], case.answers(given)[0])
    with pytest.raises(ValueError, match="extents for which its model is not defined"):
        answers(machine, case.calls[2])


def test_other_inputs_are_left_as_they_are():
    params = [
        relax.Var("x", relax.TensorType([8 * tirx.Var("n", "int64")], "float32")),
        relax.Var("y", relax.TensorType([4], "float32")),
    ]
    derived = with_derived_extents(relax.Function(params, params[0], params[0].ty))
    assert derived.params[1].same_as(params[1])
    relax.analysis.well_formed(derived)


def test_bounds_of_blocks_are_those_of_the_extents(blocks):
    attributes = ar.from_exported_program(blocks.CASES["lines"].program())["main"].attrs
    (name,) = (each for each in attributes["tir_var_upper_bound"] if each.endswith("_whole"))
    bounds = [int(attributes[f"tir_var_{each}_bound"][name]) for each in ("lower", "upper")]
    assert bounds == [5, 41]


def test_bounds_of_two_extents_of_one_symbol_are_told_apart():
    """TVM plans memory for the bounds of a name, which one name for both extents had of the last one."""
    symbol = tirx.Var("n", "int64")
    sizes = {"one": 8 * symbol, "other": 2 * symbol + 1, "third": 3 * tirx.Var("n_whole", "int64")}
    params = [relax.Var(name, relax.TensorType([size], "float32")) for name, size in sizes.items()]
    function = relax.Function(params, params[0], params[0].ty)
    bounds = {"n": 10, "n_whole": 5}
    derived = with_derived_extents(function.with_attr("tir_var_upper_bound", bounds))
    found = [derived.attrs["tir_var_upper_bound"][param.ty.shape.values[0].name] for param in derived.params]
    assert [int(each) for each in found] == [80, 21, 15]


def test_an_extent_that_is_no_multiple_is_named():
    symbol = tirx.Var("n", "int64")
    param = relax.Var("x", relax.TensorType([symbol * symbol], "float32"))
    function = relax.Function([param], param, param.ty)
    with pytest.raises(ar.ModelError, match=r"the extent n \* n of the input x is no multiple of one symbol"):
        with_derived_extents(function)
