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


def kept(dtype):
    """Vectors for channels: scale, shift, mean and variance."""
    ramp = torch.arange(6, dtype=torch.float32)
    vectors = (1.5 - ramp / 8, ramp / 4 - 0.5, ramp / 10, ramp / 5 + 1)
    return [each.to(getattr(torch, dtype)) for each in vectors]


class AllNorms(torch.nn.Module):
    """Each norm of PyTorch, whose vectors have a data type."""

    def __init__(self, dtype):
        super().__init__()
        for name, vector in zip(("scale", "shift", "mean", "variance"), kept(dtype), strict=True):
            self.register_buffer(name, vector)

    def forward(self, x):
        functional, scale, shift = torch.nn.functional, self.scale, self.shift
        mean, variance = self.mean, self.variance
        both = scale, shift
        return (
            functional.batch_norm(x, mean, variance, *both),
            functional.batch_norm(x, mean, variance, None, shift),
            functional.batch_norm(x, mean.clone(), variance.clone(), *both, training=True),
            functional.instance_norm(x, mean, variance, *both, use_input_stats=False),
            functional.instance_norm(x, mean.clone(), variance.clone(), *both),
            functional.instance_norm(x, None, None, *both),
            functional.group_norm(x, 3, *both),
            functional.group_norm(x, 3, scale),
            functional.layer_norm(x, (6,), *both),
            functional.layer_norm(x, (6,), scale),
        )


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
@pytest.mark.parametrize("batch", ["known", "symbolic"])
@pytest.mark.parametrize("vectors", ["float32", "same"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_halves_whose_vectors_have_a_type(dtype, vectors, batch, target):
    """PyTorch computes them in float32 and rounds, whether the vectors are float32 or halves as well."""
    model = AllNorms("float32" if vectors == "float32" else dtype).eval()
    torch.manual_seed(1)
    given = (torch.randn(2, 6, 5, 6) * 2 + 1).to(getattr(torch, dtype))
    free = {0: torch.export.Dim.DYNAMIC} if batch == "symbolic" else {}
    program = torch.export.export(model, (given,), dynamic_shapes=(free,), strict=False)
    partitioned = ar.partition(ar.from_exported_program(program), [target] if target else [])
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(array(given)))
    tolerance = TOLERANCES[dtype]
    for place, (answer, expected) in enumerate(zip(found, model(given), strict=True)):
        assert str(answer.dtype) == dtype, place
        difference = np.abs(answer.numpy().astype("float64") - expected.double().numpy())
        assert difference.max() <= tolerance * max(1.0, float(expected.abs().max())), place
