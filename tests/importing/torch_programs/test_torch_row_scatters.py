"""Lists of edges that a mask selects, by which graph networks scatter: PyTorch's numbers, in one region."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import ops_on_host
from tvm import relax

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

NAMES = ("convolved", "attended", "weighted", "reduced", "listed", "through layers")
LISTS = ("of two lists", "given", "joined otherwise")


@pytest.fixture
def kit(with_torch: None) -> ModuleType:
    return importlib.import_module("kits.importing.torch_edges")


def program_of(kit, function):
    free, (call, *_) = kit.torch.export.Dim.DYNAMIC, kit.calls()
    return kit.torch.export.export(
        kit.Graph(function), call, dynamic_shapes=(({0: free}, {1: free})), strict=False
    )


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["", "onnxruntime"])
@pytest.mark.parametrize("name", NAMES)
def test_edges_that_a_mask_selects_are_scattered_by(kit, name, target):
    partitioned = ar.from_exported_program(program_of(kit, kit.EDGES[name]))
    if target:
        partitioned = ar.partition(partitioned, [target])
        assert not ops_on_host(partitioned, "main")
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    for x, edges in kit.calls():
        answers = kit.EDGES[name](x, edges)
        answers = answers if isinstance(answers, list | tuple) else [answers]
        found = machine["main"](tvm.runtime.tensor(x.numpy()), tvm.runtime.tensor(edges.numpy()))
        for left, right in zip(found, answers, strict=True):
            np.testing.assert_allclose(left.numpy(), right.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("name", LISTS)
def test_lists_in_another_way_are_refused(kit, name):
    with pytest.raises(ar.ModelError, match="how many elements truth values select depends on data"):
        ar.from_exported_program(program_of(kit, kit.LISTS[name]))


def test_all_functions_are_tried(kit):
    assert set(NAMES) == set(kit.EDGES)
    assert set(LISTS) == set(kit.LISTS)
