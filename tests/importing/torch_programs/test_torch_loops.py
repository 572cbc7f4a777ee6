"""`torch.while_loop`: the numbers of PyTorch, a region for the step, and what is refused."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def loops(with_torch) -> ModuleType:
    return importlib.import_module("kits.importing.torch_loops")


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["counted", "shrinking"])
def test_loops_have_the_numbers_of_pytorch(loops, name, strict, target):
    model, program = loops.exported_case(name, strict=strict)
    mod = ar.from_exported_program(program)
    run = relax.VirtualMachine(ar.build(ar.partition(mod, [target] if target else [])), tvm.cpu())["main"]
    for rows, steps in ((3, 2), (5, 0), (2, 17)):
        given = loops.CASES[name][1](rows, steps)
        with loops.torch.no_grad():
            expected = model(*given)
        found = run(*(tvm.runtime.tensor(each.numpy()) for each in given))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-5, 1e-6)


@needs_onednn
def test_a_step_is_one_region_whose_ops_name_their_nodes(loops):
    """PyTorch keeps no modules and lines of what a loop has."""
    _model, program = loops.exported_case("counted")
    report = ar.explain(ar.from_exported_program(program), ["dnnl"])
    (body,) = [each for each in report.functions if each.name == "loop_body"]
    assert len(body.regions) == 1
    assert any(op.origin.startswith("addmm ") for op in body.ops)


def test_extents_that_only_a_step_needs_equal_are_refused(loops):
    with pytest.raises(ModelError, match=r"add\w* .* depends on equal extents that the inputs do not have"):
        ar.from_exported_program(loops.unequal_program())
