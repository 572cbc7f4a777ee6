"""The zoo's PyTorch modules: exported, partitioned, built and run, their answers are those of PyTorch."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from kits.zoo.registry import TORCH_NETWORKS, torch_network
from kits.zoo.zoo_kit import ran

from annotated_region.backends.dnnl import installation

NAMES = [name for names in TORCH_NETWORKS.values() for name in names]

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("name", NAMES)
def test_a_network_agrees_with_torch(name: str, torch_models: ModuleType) -> None:
    kit = importlib.import_module("kits.zoo.zoo_torch_kit")
    model = torch_network(name)
    for form in model.forms:
        case = kit.torch_case(model, form)
        for target in ("dnnl", "onnxruntime"):
            found = ran(case, target)
            assert found.error <= case.tolerance, f"{case.label} for {target}: {found}"
            assert found.regions > 0, case.label
