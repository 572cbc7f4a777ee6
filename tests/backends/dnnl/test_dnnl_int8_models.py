"""Whole networks that ONNX Runtime has quantized: one region of int8, with its answers and TVM's."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn
from kits.family_models import family_model, inputs_of
from kits.quantized_models import IMAGE_OPS, TEXT_OPS, quantized_model
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.testing.light_models import input_of, light_model

QUANTA = 3
"""How far an answer may be off. Sums of integers are exact; where a scaled sum lies between two elements, it
may be rounded the other way when it is scaled in another order, and later layers see that."""


@dataclass(frozen=True, slots=True)
class Network:
    """A model, and how it is quantized."""

    name: str
    per_channel: bool
    activations: str
    all_ops: bool = False

    def __str__(self) -> str:
        scales = "channels" if self.per_channel else "tensors"
        return f"{self.name}-{self.activations}-{scales}{'-all' if self.all_ops else ''}"


NETWORKS = [
    Network("resnet50", True, "uint8"),
    Network("mobilenet_v2", True, "uint8"),
    Network("mobilenet_v2", False, "int8"),
    Network("bert", True, "uint8"),
    Network("bert", False, "int8"),
    Network("bert", False, "uint8", all_ops=True),
    Network("vit", False, "int8", all_ops=True),
    Network("convnext", False, "uint8", all_ops=True),
]
SMALL = [NETWORKS[1], *NETWORKS[4:]]


def float_model(name: str) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    if name == "resnet50":
        model = light_model(name)
        return model, [input_of(model)]
    model = family_model(name, "small")
    return model, [inputs_of(model, seed=seed) for seed in range(3)]


@cache
def quantized(network: Network) -> onnx.ModelProto:
    model, samples = float_model(network.name)
    usual = TEXT_OPS if network.name == "bert" else IMAGE_OPS
    return quantized_model(
        model,
        samples,
        per_channel=network.per_channel,
        activations=network.activations,
        ops=None if network.all_ops else usual,
    )


def inputs(network: Network) -> dict[str, np.ndarray]:
    return float_model(network.name)[1][0]


@cache
def offloaded(network: Network) -> Offloaded:
    module = ar.partition(from_onnx(quantized(network)), ["dnnl"])
    library = ar.build(module).jit()
    return Offloaded(module, library, relax.VirtualMachine(library, tvm.cpu()))


@cache
def answer(network: Network) -> np.ndarray:
    (result,) = offloaded(network).call("main", *inputs(network).values())
    return result


def quanta(difference: np.ndarray, model: onnx.ModelProto) -> float:
    """How many steps of the last quantization, to three digits: answers are float32.

    Softmax and tanh behind it only make a step less.
    """
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    scales = [node.input[1] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return round(float(np.abs(difference).max() / values[scales[-1]]), 3)


@needs_onednn
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_answer_is_that_of_onnx_runtime(network: Network) -> None:
    model = quantized(network)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs(network))[0]
    assert len(np.unique(expected)) > 30, "a saturated answer hides errors"
    assert quanta(answer(network) - expected, model) <= QUANTA


@needs_onednn
@pytest.mark.parametrize("network", SMALL, ids=str)
def test_answer_is_that_of_tvm(network: Network) -> None:
    model = quantized(network)
    machine = relax.VirtualMachine(tvm.compile(from_onnx(model), UNOPTIMIZED), tvm.cpu())
    expected = machine["main"](*map(tvm.runtime.tensor, inputs(network).values())).numpy()
    assert quanta(answer(network) - expected, model) <= QUANTA


@needs_onednn
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_all_products_are_of_int8_in_one_region(network: Network) -> None:
    answer(network)
    (symbol,) = offloaded(network).symbols_of("main")
    products = [
        step for step in offloaded(network).plan(symbol) if step.startswith(("convolution", "matmul"))
    ]
    ops = [node.op_type for node in quantized(network).graph.node]
    assert len(products) == sum(ops.count(op) for op in ("Conv", "MatMul", "Gemm"))
    assert [step for step in products if " int8" not in step] == []
    assert [step for step in products if " ref" in step or "gemm" in step] == []


WITHOUT_INTEGER_PRODUCTS = """
import sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from test_dnnl_int8_models import NETWORKS, answer, offloaded
np.save(sys.stdout.buffer, answer(NETWORKS[2]))
(symbol,) = offloaded(NETWORKS[2]).symbols_of("main")
assert " int8" not in "".join(offloaded(NETWORKS[2]).plan(symbol))
"""


@needs_onednn
def test_a_processor_without_integer_products_computes_in_floats() -> None:
    """oneDNN's products of int8 saturate there, in pairs of large elements."""
    here = Path(__file__).parent
    command = [sys.executable, "-c", WITHOUT_INTEGER_PRODUCTS, str(here), str(here.parents[1])]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    result = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    network = NETWORKS[2]
    start = result.stdout.index(b"\x93NUMPY")
    stream = io.BytesIO(result.stdout[start:])
    assert quanta(np.load(stream) - answer(network), quantized(network)) <= QUANTA
