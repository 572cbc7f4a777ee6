"""Extents that are computed step by step from those of sequences and images, as PyTorch knows them."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar
from annotated_region.importing.torch_programs.converters.torch_node import extents_of_tensor
from annotated_region.importing.torch_programs.reader import module_from_archive

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

BLOCKS = ["chunks", "skip", "windows", "neighbours", "loop", "steps", "differences"]
TARGETS = ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"]


@pytest.fixture
def padded(with_torch) -> ModuleType:
    return importlib.import_module("kits.importing.torch_padded_blocks")


def machine_of(case, target):
    module = ar.from_exported_program(case.program())
    partitioned = ar.partition(module, [target]) if target else module
    return relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*BLOCKS, "nothing"])
def test_what_follows_from_extents_is_computed_as_in_torch(padded, name, target):
    case = padded.CASES[name]
    machine = machine_of(case, target)
    for given in case.calls:
        (found,) = machine["main"](tvm.runtime.tensor(given[0].numpy()))
        np.testing.assert_allclose(found.numpy(), case.answers(given)[0], 1e-4, 1e-4)


@needs_onednn
@pytest.mark.parametrize("name", BLOCKS)
def test_what_follows_from_extents_is_one_region(padded, name):
    partitioned = ar.partition(ar.from_exported_program(padded.CASES[name].program()), ["dnnl"])
    assert not ops_on_host(partitioned, "main")
    assert len(external_functions(partitioned)) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_more_blocks_than_when_exported_are_refused(padded, target):
    """Each block but the first one would be left out of the result."""
    machine = machine_of(padded.CASES["loop"], target)
    message = r"\+ 15\) // 16 must be 1 for 'Loop \(.*:\d+\)', where .* is extent 1 of x"
    with pytest.raises(ValueError, match=message):
        machine["main"](tvm.runtime.tensor(np.zeros((2, 17, 8), "float32")))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_no_whole_blocks_are_refused(padded, target):
    """Some of thirteen rows would be left out, and those of no block divided by their number, which is 0."""
    machine = machine_of(padded.CASES["windows"], target)
    for length in (13, 3):
        message = r"(\w+) must be \1 // 4 \* 4 for 'Windows \(.*:\d+\)', where \1 is extent 1 of x"
        with pytest.raises(ValueError, match=message):
            machine["main"](tvm.runtime.tensor(np.zeros((2, length, 8), "float32")))


@pytest.mark.parametrize("target", TARGETS)
def test_fewer_rows_than_slices_need_are_refused(padded, target):
    machine = machine_of(padded.CASES["neighbours"], target)
    message = r"min\((\w+), 4\) must be 4 for 'Neighbours \(.*:\d+\)', where \1 is extent 1 of x"
    with pytest.raises(ValueError, match=message):
        machine["main"](tvm.runtime.tensor(np.zeros((2, 3, 8), "float32")))


def test_other_numbers_of_steps_than_when_exported_are_refused(padded):
    """PyTorch's own module refuses them; blocks would be left out of the result."""
    machine = machine_of(padded.CASES["steps"], "")
    with pytest.raises(ValueError, match=r" // 4 must be 2, where .* is extent 1 of x"):
        machine["main"](tvm.runtime.tensor(np.zeros((2, 12, 8), "float32")))


def test_a_saved_program_refuses_them_as_well(padded, tmp_path):
    """Its guards are text, which is parsed and not executed."""
    case = padded.CASES["steps"]
    importlib.import_module("torch").export.save(case.program(), tmp_path / "steps.pt2")
    module = module_from_archive((tmp_path / "steps.pt2").read_bytes(), "steps.pt2", "", {})
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    for given in case.calls:
        (found,) = machine["main"](tvm.runtime.tensor(given[0].numpy()))
        np.testing.assert_array_equal(found.numpy(), case.answers(given)[0])
    with pytest.raises(ValueError, match=r" // 4 must be 2, where .* is extent 1 of x"):
        machine["main"](tvm.runtime.tensor(np.zeros((2, 12, 8), "float32")))


def test_an_extent_that_is_fixed_while_the_program_is_decomposed(padded):
    """Other sequences are refused; rows were left out of their results."""
    machine, (given,) = machine_of(padded.REST, ""), padded.REST.calls[0]
    (found,) = machine["main"](tvm.runtime.tensor(given.numpy()))
    np.testing.assert_allclose(found.numpy(), padded.REST.answers((given,))[0], 1e-4, 1e-4)
    with pytest.raises(RuntimeError, match="shape\\[1\\] mismatch to specified constant"):
        machine["main"](tvm.runtime.tensor(np.zeros((2, 13, 8), "float32")))


def test_extents_that_tensors_compute_are_named_as_such():
    """As of audio codecs, which pad by an element of a tensor."""
    with pytest.raises(ar.ModelError, match="are computed with tensors, and known in a run only"):
        extents_of_tensor(relax.Var("x", relax.TensorType(None, "float32", ndim=3)))
