"""Whole models of half precision: one region, and nearer to float32 than other engines in the same type."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host, run
from kits.backends.dnnl.processor_flags import processor_flags
from kits.diffusion_models import diffusion_model
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.half_models import in_float16
from tvm import relax

import annotated_region as ar

NETWORKS = (*FAMILIES, "unet_block")


def network(name: str) -> onnx.ModelProto:
    return family_model(name, "small") if name in FAMILIES else diffusion_model(name, "small")


def error(answer: np.ndarray, expected: np.ndarray) -> float:
    """The largest, as part of the largest answer."""
    return float(np.abs(answer.astype("float64") - expected).max() / np.abs(expected).max())


def on_onnx_runtime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


def in_type(inputs: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    return {name: value.astype(dtype) if value.dtype.kind == "f" else value for name, value in inputs.items()}


@needs_onednn
@pytest.mark.parametrize("name", NETWORKS)
def test_float16_is_one_region_nearer_to_float32_than_onnx_runtime(name: str) -> None:
    """ONNX Runtime rounds the result of each op."""
    model = network(name)
    inputs, halved = inputs_of(model), in_float16(model)
    expected = on_onnx_runtime(model, inputs)
    partitioned = ar.partition(ar.from_onnx(halved), ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert not ops_on_host(partitioned)
    library = ar.build(partitioned).jit()
    given = in_type(inputs, "float16")
    (answer,) = run(relax.VirtualMachine(library, tvm.cpu()), "main", list(given.values()))
    assert answer.dtype == np.float16
    assert error(answer, expected) <= error(on_onnx_runtime(halved, given), expected)


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_module_of_pytorch_is_one_region_as_near_to_float32_as_pytorch(name: str, dtype: str) -> None:
    """A matrix unit sums in an order of its own, so that either may be nearer there by parts of its error."""
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `torch`)")
    found = importlib.import_module("kits.torch_halves").half_answers(name, dtype)
    partitioned = ar.partition(found.module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert not ops_on_host(partitioned)
    (answer,) = run(relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu()), "main", found.inputs)
    assert str(answer.dtype) == dtype
    allowed = 1.1 if dtype == "bfloat16" and "amx_bf16" in processor_flags() else 1.0
    assert error(answer, found.exact) <= allowed * error(found.rounded, found.exact)
