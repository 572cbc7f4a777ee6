"""Elements at the places of masks that a program contains are those of PyTorch."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture
def kit(with_torch: None) -> ModuleType:
    return importlib.import_module("kits.importing.torch_known_masks")


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"])
def test_elements_at_the_places_of_constant_masks(kit, target):
    module = ar.from_exported_program(kit.KNOWN.program())
    partitioned = ar.partition(module, [target]) if target else module
    assert not target or not ops_on_host(partitioned, "main")
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    for given in kit.KNOWN.calls:
        found = machine["main"](tvm.runtime.tensor(given[0].numpy()))
        for left, right in zip(found, kit.KNOWN.answers(given), strict=True):
            np.testing.assert_allclose(left.numpy(), right, 1e-5, 1e-5)
