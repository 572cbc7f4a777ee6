"""PyTorch's own samples of its ops (``torch.testing``) as small programs with expected results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

import annotated_region as ar
from kits.importing.node_checks import Call, Kind, Outcome, checked_module
from kits.torch_halves import array_of

__all__ = ["DTYPES", "TorchSample", "torch_samples"]

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
SEED = 20261126
_OF_PYTORCH = (RuntimeError, TypeError, AssertionError)
"""What PyTorch raises for a sample that it cannot export: its exporter's errors are of the first type, types
that numpy lacks raise the second, and ops of other devices the third. Anything else is a defect."""


class _Applied(torch.nn.Module):
    """An op of some arguments that are tensors, and of others that are part of the program."""

    def __init__(self, op: OpInfo, leaves: list[Any], form: Any) -> None:
        super().__init__()
        self.op, self.form = op, form
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        leaves = list(self.fixed)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments, words = pytree.tree_unflatten(leaves, self.form)
        leaves = pytree.tree_leaves(self.op.op(*arguments, **words))
        results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return results[0] if len(results) == 1 else results


@dataclass(frozen=True, slots=True)
class TorchSample:
    """One sample of an op.

    Attributes
    ----------
    name
        The op, its variant, the type and the number of the sample.
    op
        PyTorch's description of the op.
    dtype
        The type of the sample.
    number
        Which of the op's samples it is.
    """

    name: str
    op: OpInfo
    dtype: str
    number: int

    def checked(self, target: str, *, symbolic: bool) -> Outcome:
        """Export the op, and compare what `target` computes with PyTorch.

        With `symbolic`, all extents above one may be others than the sample's, as far as PyTorch allows it.
        """
        torch.manual_seed(SEED)
        torch.set_num_threads(1)
        samples: Iterator[SampleInput] = self.op.sample_inputs("cpu", DTYPES[self.dtype], requires_grad=False)
        sample = next(itertools.islice(samples, self.number, None), None)
        if sample is None:
            return Outcome(Kind.NO_REGION, "there are fewer samples")
        try:
            exported, call = self._exported(sample, symbolic)
        except _OF_PYTORCH as error:
            return Outcome(Kind.NO_REGION, f"PyTorch: {type(error).__name__}")
        return checked_module(lambda: ar.from_exported_program(exported), [call], target)

    def _exported(self, sample: SampleInput, symbolic: bool) -> tuple[torch.export.ExportedProgram, Call]:
        """The program of a sample, with what it is called with and what PyTorch computes."""
        leaves, form = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        program = _Applied(self.op, leaves, form).eval()
        tensors = tuple(leaves[place].contiguous() for place in program.places)
        given = tuple(_array(tensor) for tensor in tensors)
        with torch.no_grad():
            made = pytree.tree_leaves(program(*(tensor.clone() for tensor in tensors)))
            wanted = [_array(each) for each in made]  # an imported program returns a tuple
            opened = _open(tensors) if symbolic else None
            exported = torch.export.export(program, tensors, dynamic_shapes=opened)
        return exported, (given, (wanted,))


def _open(tensors: tuple[torch.Tensor, ...]) -> tuple[tuple[Any, ...]]:
    auto = torch.export.Dim.AUTO
    return (tuple(dict.fromkeys(range(tensor.ndim), auto) for tensor in tensors),)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.array(array_of(tensor.detach().resolve_conj().resolve_neg()))


def torch_samples(dtype: str, count: int) -> Iterator[TorchSample]:
    """The first samples of each op that has a type, in the order of PyTorch's table."""
    for op in op_db:
        if DTYPES[dtype] not in op.dtypes:
            continue
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        for number in range(count):
            yield TorchSample(f"{name} {dtype} {number}", op, dtype, number)
