"""`torch.while_loop`: the numbers of PyTorch, a region for the step, and what is refused."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError

torch: Any = pytest.importorskip("torch", reason="exports programs of PyTorch")
# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
DYNAMIC = torch.export.Dim.DYNAMIC
while_loop = importlib.import_module("torch._higher_order_ops.while_loop").while_loop


class Counted(torch.nn.Module):
    """As many steps as the elements of an input say; each reads weights."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x, n):
        def body(i, v):
            return i + 1, torch.tanh(self.layer(v)) + v * 0.1

        return while_loop(lambda i, _v: i < n.sum(), body, (torch.zeros((), dtype=torch.int64), x))


class Shrinking(torch.nn.Module):
    """Until no element is large; another input is read in each step."""

    def forward(self, x, y):
        return while_loop(lambda v: (v - y).abs().max() > 0.5, lambda v: (v * 0.7 + y * 0.3,), (x,))


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CASES = {
    "counted": (Counted, lambda rows, n: (seeded(rows, 8) * 5, torch.tensor([n, 1])), ({0: DYNAMIC}, None)),
    "shrinking": (
        Shrinking,
        lambda rows, n: (seeded(rows, 8) * n, seeded(rows, 1)),
        ({0: DYNAMIC}, {0: DYNAMIC}),
    ),
}


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_loops_have_the_numbers_of_pytorch(name, strict, target):
    kind, inputs, shapes = CASES[name]
    torch.manual_seed(0)
    model = kind().eval()
    with torch.no_grad():
        program = torch.export.export(model, inputs(3, 2), dynamic_shapes=shapes, strict=strict)
    mod = ar.from_exported_program(program)
    run = relax.VirtualMachine(ar.build(ar.partition(mod, [target] if target else [])), tvm.cpu())["main"]
    for rows, n in ((3, 2), (5, 0), (2, 17)):
        given = inputs(rows, n)
        with torch.no_grad():
            expected = model(*given)
        found = run(*(tvm.runtime.tensor(each.numpy()) for each in given))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-5, 1e-6)


@needs_onednn
def test_a_step_is_one_region_whose_ops_name_their_nodes():
    """PyTorch keeps no modules and lines of what a loop has."""
    with torch.no_grad():
        program = torch.export.export(Counted().eval(), CASES["counted"][1](3, 2))
    report = ar.explain(ar.from_exported_program(program), ["dnnl"])
    (body,) = [each for each in report.functions if each.name == "loop_body"]
    assert len(body.regions) == 1
    assert any(op.origin.startswith("addmm ") for op in body.ops)


def test_extents_that_only_a_step_needs_equal_are_refused():
    class Unequal(torch.nn.Module):
        def forward(self, x, y):
            return while_loop(lambda v: v.max() > 9, lambda v: (v + y.reshape(-1)[: v.shape[0]],), (x,))

    with torch.no_grad():
        program = torch.export.export(
            Unequal(), (seeded(6), seeded(2, 3)), dynamic_shapes=({0: DYNAMIC}, {0: DYNAMIC})
        )
    with pytest.raises(ModelError, match=r"add\w* .* depends on equal extents that the inputs do not have"):
        ar.from_exported_program(program)
