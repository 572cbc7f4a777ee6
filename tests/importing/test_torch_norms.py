"""Group norms from PyTorch, without scale or shift, and of bfloat16: one region, the numbers of PyTorch."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

torch: Any = pytest.importorskip("torch", reason="exports programs of PyTorch")
# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


TOLERANCES = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def array(value):
    if value.dtype != torch.bfloat16:
        return value.numpy()
    return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


class Normed(torch.nn.Module):
    def __init__(self, affine):
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 6, affine=affine)
        self.scale = torch.nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        scaled = torch.nn.functional.group_norm(x, 3, self.scale)
        return self.norm(x), scaled, torch.nn.functional.instance_norm(x)


@needs_onednn
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("decomposed", [True, False])
def test_norms_without_vectors(affine, dtype, decomposed):
    torch.manual_seed(0)
    model = Normed(affine).to(getattr(torch, dtype)).eval()
    given = (torch.randn(2, 6, 5, 5) * 3 + 1).to(getattr(torch, dtype))
    program = torch.export.export(model, (given,))
    module = ar.from_exported_program(program, run_ep_decomposition=decomposed)
    partitioned = ar.partition(module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert not ops_on_host(partitioned)
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(array(given)))
    tolerance = TOLERANCES[dtype]
    for answer, expected in zip(found, model(given), strict=True):
        assert str(answer.dtype) == dtype
        np.testing.assert_allclose(
            answer.numpy().astype("float32"),
            expected.detach().float().numpy(),
            rtol=tolerance,
            atol=tolerance,
        )
