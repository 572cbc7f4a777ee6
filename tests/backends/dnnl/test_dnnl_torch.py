"""Whole models of six families by torch.export: one region each, the answers of PyTorch and of TVM alone."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    ConstantNames,
    external_functions,
    needs_onednn,
    ops_on_host,
    run,
    tvm_alone,
)
from kits.backends.dnnl.torch_idioms import IDIOMS, Idiom
from kits.family_sizes import FAMILIES, TRANSFORMERS
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl.codegen import region_graph

WORDS = {"astype", "reshape", "take", "equal"}
"""What prepares whole numbers: looking up words, and which of them are seen."""

CAUSAL = {"arange", "expand_dims", "subtract", "less_equal"}
"""A causal mask of a length that is not known before."""


def machine(module: tvm.IRModule) -> relax.VirtualMachine:
    return relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())


def arrays(inputs: Any) -> list[np.ndarray]:
    return [value.contiguous().numpy() for value in inputs]


def assert_agree(answer: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=2e-5)


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_one_region_and_agrees_with_torch_and_tvm(name: str, torch_models: ModuleType) -> None:
    model = torch_models.torch_model(name, "small")
    inputs = torch_models.example_inputs(name, "small", batch=2)
    module = torch_models.imported(model, inputs)
    partitioned = ar.partition(module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert ops_on_host(partitioned) <= WORDS
    (answer,) = run(machine(partitioned), "main", arrays(inputs))
    assert_agree(answer, model(*inputs).numpy())
    assert_agree(answer, run(tvm_alone(module), "main", arrays(inputs))[0])


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_of_any_batch_and_length_is_one_region_and_agrees_with_torch(
    name: str, torch_models: ModuleType
) -> None:
    model = torch_models.torch_model(name, "small")
    inputs = torch_models.example_inputs(name, "small", batch=2)
    partitioned = ar.partition(torch_models.imported(model, inputs, torch_models.any_size(inputs)), ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert ops_on_host(partitioned) <= WORDS | CAUSAL
    offloaded = machine(partitioned)
    for batch, length in ((1, 5), (3, 24), (2, 2)):
        whole = torch_models.example_inputs(name, "small", batch=batch)
        given = tuple(value[:, :length] if value.dim() == 2 else value for value in whole)
        assert_agree(run(offloaded, "main", arrays(given))[0], model(*given).numpy())


@needs_onednn
@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("is_any_size", [False, True], ids=["fixed", "any_size"])
def test_attention_is_one_kernel_a_layer(name: str, is_any_size: bool, torch_models: ModuleType) -> None:
    inputs = torch_models.example_inputs(name, "small", batch=2)
    shapes = torch_models.any_size(inputs) if is_any_size else None
    partitioned = ar.partition(
        torch_models.imported(torch_models.torch_model(name, "small"), inputs, shapes), ["dnnl"]
    )
    (symbol,) = external_functions(partitioned)
    kinds = [node.kind.value for node in region_graph(partitioned[symbol], ConstantNames()).nodes]
    assert kinds.count("attention") == TRANSFORMERS[name]["small"].layers
    assert not {"softmax", "guarded_softmax", "reduction"} & set(kinds)


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_an_idiom_is_one_region_and_agrees_with_torch(idiom: Idiom, torch_models: ModuleType) -> None:
    torch: Any = torch_models.torch

    class Model(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return idiom.body(torch, *inputs)

    generator = torch.Generator().manual_seed(len(idiom.name))
    inputs = tuple(torch.randn(shape, generator=generator) for shape in idiom.shapes)
    model = Model().eval()
    partitioned = ar.partition(torch_models.imported(model, inputs), ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert ops_on_host(partitioned) == set()
    assert_agree(run(machine(partitioned), "main", arrays(inputs))[0], model(*inputs).numpy())
