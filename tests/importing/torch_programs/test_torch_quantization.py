"""Quantized programs of PyTorch compute what PyTorch does, and are one region."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar
from annotated_region.command_line.models import read_model

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning"
)

TARGETS = ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"]
NAMES = ["network", "dynamic", "fake"]


@pytest.fixture
def quantized(with_torch: None) -> ModuleType:
    return importlib.import_module("kits.importing.torch_quantized")


def require_right(case, module, target):
    """Require the answers of PyTorch, with their types."""
    partitioned = ar.partition(module, [target]) if target else module
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    for given in case.calls:
        found = machine["main"](tvm.runtime.tensor(given[0].numpy()))
        for left, right in zip(found, case.answers(given), strict=True):
            wanted = np.asarray(right)
            assert left.dtype == wanted.dtype
            np.testing.assert_allclose(left.numpy(), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_quantized_programs_compute_what_pytorch_does(quantized, name, target):
    case = quantized.CASES[name]
    require_right(case, ar.from_exported_program(case.program()), target)


@pytest.mark.parametrize("target", TARGETS)
def test_integers_and_scales_are_those_of_pytorch(quantized, target):
    case = quantized.OTHERS["values"]
    require_right(case, ar.from_exported_program(case.program()), target)


@needs_onednn
@pytest.mark.parametrize("name", NAMES)
def test_quantized_programs_are_one_region(quantized, name):
    partitioned = ar.partition(ar.from_exported_program(quantized.CASES[name].program()), ["dnnl"])
    assert not ops_on_host(partitioned, "main")
    assert len(external_functions(partitioned)) == 1


def test_a_quantized_archive_is_read(quantized, tmp_path):
    case = quantized.CASES["network"]
    importlib.import_module("torch.export").save(case.program(), tmp_path / "m.pt2")
    require_right(case, read_model(tmp_path / "m.pt2"), "")


def test_other_integers_are_refused(quantized):
    (given,) = quantized.OTHERS["values"].calls[0]
    program = importlib.import_module("torch.export").export(quantized.Eighths(), (given,))
    with pytest.raises(ar.ModelError, match="integers of type int64 are not supported; there are int8"):
        ar.from_exported_program(program)
