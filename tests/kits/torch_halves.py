"""The families of `torch_models` in half precision: exported, and what PyTorch answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import torch
import tvm

import annotated_region as ar
from kits.torch_models import example_inputs, torch_model

__all__ = ["HalfAnswers", "array_of", "half_answers"]


@dataclass(frozen=True, slots=True)
class HalfAnswers:
    """A model of half precision.

    Attributes
    ----------
    module
        What the importer makes of it.
    inputs
        Its arguments.
    exact
        What the model of float32 answers.
    rounded
        What PyTorch answers in the type.
    """

    module: tvm.IRModule
    inputs: list[np.ndarray]
    exact: np.ndarray
    rounded: np.ndarray


def half_answers(name: str, dtype: str) -> HalfAnswers:
    """A small family of ``"float16"`` or ``"bfloat16"``, exported in this type from the start."""
    type_ = getattr(torch, dtype)
    inputs = example_inputs(name, "small")
    exact = torch_model(name, "small")(*inputs).numpy()
    model = torch_model(name, "small").to(type_)
    given = tuple(each.to(type_) if each.is_floating_point() else each for each in inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own use of what it deprecates
        program = torch.export.export(model, given)
        module = ar.from_exported_program(program, unwrap_unit_return_tuple=True)
    return HalfAnswers(module, [array_of(each) for each in given], exact, array_of(model(*given)))


def array_of(value: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor; numpy itself has no bfloat16."""
    if value.dtype != torch.bfloat16:
        return np.asarray(value.contiguous().numpy())
    return np.asarray(value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
