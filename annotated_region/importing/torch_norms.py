"""Group norms without scale and shift, from PyTorch.

TVM 0.27's importer hands the missing vectors on as None, which its group norm does not take. Its layer norm
and its instance norm get ones and zeros instead, and so do group norms here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, tirx

from annotated_region.tvm_adapter.types import expect, tensor_type

if TYPE_CHECKING:
    from torch import fx
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

__all__ = ["plain_group_norm"]


@dataclass(frozen=True, slots=True)
class _NormArguments:
    """Where an op of ATen has its arguments."""

    vectors: tuple[int, int]
    groups: int
    epsilon: int


_PLACES: Mapping[str, _NormArguments] = {
    "native_group_norm.default": _NormArguments((1, 2), 6, 7),
    "group_norm.default": _NormArguments((2, 3), 1, 4),
}
_EPSILON = 1e-5  # PyTorch's default


def plain_group_norm(node: fx.Node, importer: ExportedProgramImporter) -> relax.Var | None:
    """A group norm that lacks its scale, its shift or both, with ones and zeros for them.

    None if the node is something else, or lacks neither.
    """
    places = _PLACES.get(getattr(node.target, "__name__", ""))
    if places is None:
        return None
    given = [_argument(node, place) for place in places.vectors]
    if all(each is not None for each in given):
        return None
    data = importer.env[node.args[0]]
    type_ = tensor_type(data)
    neutral = [_repeated(type_, number) for number in (1.0, 0.0)]
    vectors = [
        constant if each is None else importer.env[each]
        for each, constant in zip(given, neutral, strict=True)
    ]
    epsilon = _argument(node, places.epsilon)
    call = relax.op.nn.group_norm(
        data,
        *vectors,
        num_groups=node.args[places.groups],
        channel_axis=1,
        axes=list(range(2, type_.ndim)),
        epsilon=_EPSILON if epsilon is None else epsilon,
    )
    return importer.block_builder.emit(call)


def _argument(node: fx.Node, place: int) -> object:
    return node.args[place] if place < len(node.args) else None


def _repeated(type_: relax.TensorType, number: float) -> relax.Expr:
    """One number for each channel, in the type of the data."""
    channels = expect(relax.ShapeExpr, type_.shape).values[1]  # PyTorch divides them, so they are known
    return relax.const(np.full(int(expect(tirx.IntImm, channels)), number, "float32"), str(type_.dtype))
