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
