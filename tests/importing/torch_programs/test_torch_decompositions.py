"""Programs that PyTorch takes apart before TVM reads them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
def test_a_view_of_attention_may_copy(torch_functions, target, is_masked):
    """GPT-2's: with a symbolic batch, the result of attention in its parts has another order of memory."""
    torch = torch_functions.torch
    mask = torch.ones(5, 5).tril().bool() if is_masked else None

    def forward(x, weights):
        heads = x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, mask)
        y = y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1).contiguous()
        return y.view(-1, y.shape[-1]) @ weights

    model = torch.nn.Module()
    model.forward = forward
    given, weights = torch_functions.seeded(2, 5, 8), torch_functions.seeded(8, 3)
    shapes = ({0: torch.export.Dim("batch")}, None)
    program = torch.export.export(model, (given, weights), dynamic_shapes=shapes)
    module = ar.from_exported_program(program)
    built = ar.build(ar.partition(module, [target]) if target else module)
    machine = relax.VirtualMachine(built.jit(), tvm.cpu())
    for batch in (2, 1, 4):
        x = torch_functions.seeded(batch, 5, 8)
        (found,) = machine["main"](tvm.runtime.tensor(x.numpy()), tvm.runtime.tensor(weights.numpy()))
        np.testing.assert_allclose(found.numpy(), forward(x, weights).numpy(), 2e-5, 2e-5)


def test_programs_with_a_check_that_pytorch_cannot_run_are_taken_apart(torch_functions):
    """PyTorch 2.14 writes such a check of ``forward(**k)``, and fails when it takes the program apart."""
    torch = torch_functions.torch
    model = torch.nn.Module()
    model.forward = lambda x, y: x @ y.reshape(x.shape[1], -1)
    given = torch_functions.seeded(2, 6), torch_functions.seeded(6, 4)
    shapes = (
        {0: torch.export.Dim("rows", min=2), 1: torch.export.Dim.DYNAMIC},
        {0: torch.export.Dim.DYNAMIC},
    )
    program = torch.export.export(model, given, dynamic_shapes=shapes)
    program._guards_code.append("L['k']['x'].size()[1] == L['k']['y'].size()[0]")
    with pytest.raises(NameError, match="name 'L' is not defined"):
        program.run_decompositions()
    run = relax.VirtualMachine(ar.build(ar.from_exported_program(program)).jit(), tvm.cpu())["main"]
    x, y = torch_functions.seeded(5, 3), torch_functions.seeded(3, 4)
    (found,) = run(tvm.runtime.tensor(x.numpy()), tvm.runtime.tensor(y.numpy()))
    np.testing.assert_allclose(found.numpy(), (x @ y).numpy(), 1e-5, 1e-5)


ASSIGNMENTS = {
    "all where a row is": lambda torch, x: (x, torch.where((x > 0).sum(-1) > 1), 7.0),
    "by nonzero": lambda torch, x: (x, torch.nonzero(x > 0.5, as_tuple=True), -1.0),
    "of one axis": lambda torch, x: (x, torch.where(x[:, 0, 0] > 0), 3.0),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
def test_places_of_true_values_are_assigned_to_by_the_mask(torch_functions, target, name):
    torch = torch_functions.torch

    def forward(x):
        data, places, value = ASSIGNMENTS[name](torch, x.clone())
        data[places] = value
        return data

    model = torch.nn.Module()
    model.forward = forward
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(model, (torch_functions.seeded(3, 4, 5),), dynamic_shapes=shapes)
    module = ar.from_exported_program(program)
    built = ar.build(ar.partition(module, [target]) if target else module)
    machine = relax.VirtualMachine(built.jit(), tvm.cpu())
    for batch in (3, 1, 6):
        x = torch_functions.seeded(batch, 4, 5)
        (found,) = machine["main"](tvm.runtime.tensor(x.numpy()))
        np.testing.assert_array_equal(found.numpy(), forward(x).numpy())


OTHERS = {
    "a mask of fewer rows": lambda torch, x: torch.where(x[:2] > 0),
    "coordinates that are exchanged": lambda torch, x: torch.where(x[:, :, 0] > 0)[::-1],
    "one coordinate": lambda torch, x: torch.where(x > 0)[:1],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_places_are_refused(torch_functions, name):
    torch = torch_functions.torch

    def forward(x):
        data = x.clone()
        data[OTHERS[name](torch, x)] = 7.0
        return data

    model = torch.nn.Module()
    model.forward = forward
    program = torch.export.export(model, (torch_functions.seeded(4, 4, 4),))
    with pytest.raises(ar.ModelError, match=r"nonzero\.default"):
        ar.from_exported_program(program)
