"""Whole models of six families on oneDNN: one region each, and the answer of ONNX Runtime or TVM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host, run
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.host_machines import host_machine
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar


@dataclass(frozen=True, slots=True)
class Ran:
    """A model that answered.

    Attributes
    ----------
    module
        The partitioned model.
    answer
        What it said.
    plan
        What its only region ran.
    """

    module: tvm.IRModule
    answer: np.ndarray
    plan: str


def on_onednn(name: str, precision: str = "fp32") -> Ran:
    model = family_model(name, "small")
    module = ar.partition(from_onnx(model), ["dnnl"])
    library = ar.build(module, options={"dnnl": {"precision": precision}}).jit()
    (answer,) = run(relax.VirtualMachine(library, tvm.cpu()), "main", list(inputs_of(model).values()))
    (symbol,) = external_functions(module)
    return Ran(module, answer, str(library.get_function(f"{symbol}__plan", query_imports=True)()))


def on_onnx_runtime(name: str) -> np.ndarray:
    model = family_model(name, "small")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs_of(model))[0])


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_one_region_and_agrees_with_onnx_runtime(name: str) -> None:
    ran = on_onednn(name)
    assert len(external_functions(ran.module)) == 1
    assert not ops_on_host(ran.module)
    np.testing.assert_allclose(ran.answer, on_onnx_runtime(name), rtol=1e-4, atol=2e-5)


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_bf16_rounds_a_family_by_less_than_two_per_cent(name: str) -> None:
    """Of the largest answer. A processor without bfloat16 computes in float32 all the same, and says so."""
    expected = on_onnx_runtime(name)
    ran = on_onednn(name, "bf16")
    error = float(np.abs(ran.answer - expected).max() / np.abs(expected).max())
    assert error < 0.02
    assert ran.plan.startswith("float32:") == (error < 1e-4)


class Block(nn.Module):
    """A block of a Llama as ``relax.frontend.nn`` writes it."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.norm = nn.RMSNorm(width, -1, 1e-5, bias=False)
        self.joined = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=True)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        batch, length, width = x.shape
        q, k, v = nn.op.split(self.joined(self.norm(x)), 3, axis=-1)
        apart = (batch, length, self.heads, width // self.heads)
        q, k, v = (nn.op.reshape(each, apart) for each in (q, k, v))
        mixed = nn.op.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(nn.op.reshape(mixed, (batch, length, width)))
        gate, up = nn.op.split(self.gate(x), 2, axis=-1)
        return x + self.down(nn.op.silu(gate) * up)


def block() -> tuple[tvm.IRModule, np.ndarray]:
    """The block with its weights bound, and an input."""
    length = tvm.tirx.Var("length", "int64")
    spec = {"forward": {"x": nn.spec.Tensor([1, length, 32], "float32")}}
    module, weights = Block(32, 4).export_tvm(spec)
    rng = np.random.default_rng(5)
    values = {
        name: (rng.standard_normal([int(extent) for extent in weight.shape]) / 6).astype("float32")
        for name, weight in weights
    }
    bound = relax.transform.BindParams("forward", values)(module)
    return bound, rng.standard_normal((1, 9, 32)).astype("float32")


@needs_onednn
def test_a_block_of_the_frontend_is_one_region_and_agrees_with_tvm() -> None:
    module, data = block()
    partitioned = ar.partition(module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    (expected,) = run(host_machine(module), "forward", [data])
    (answer,) = run(machine, "forward", [data])
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-5)
