"""Networks of the zoo from PyTorch, and what PyTorch says; imported where PyTorch is."""

from __future__ import annotations

import numpy as np
import torch

from kits.zoo.signature import Form, arrays
from kits.zoo.torch_model import TorchModel
from kits.zoo.zoo_kit import Case

__all__ = ["torch_case"]


def torch_case(model: TorchModel, form: Form) -> Case:
    """A network from PyTorch, and what PyTorch says."""
    module = model.module()
    calls = [arrays(model.inputs, sizes) for sizes in form.calls]
    expected = [_answers(module, model.given(sizes)) for sizes in form.calls]
    return Case(f"{model.name} from PyTorch, {form.name}", model.imported(form), calls, expected, 1e-4)


def _answers(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> list[np.ndarray]:
    result = module(*given)
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]
