"""Group norms from PyTorch that TVM 0.27's importer fails to convert.

1.  Without scale or shift: the importer passes None for the missing vectors, which its group norm rejects. It
uses
    ones and zeros for layer norm and instance norm, and so does this converter.
2.  With bfloat16, which its group norm does not support. The data is cast to float32 before and to bfloat16
after
    it, like the float16 group norm does internally: sums in float32, one rounding.
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

__all__ = ["group_norm"]


@dataclass(frozen=True, slots=True)
class _NormArguments:
    """The positions of the arguments of an ATen op."""

    vectors: tuple[int, int]
    groups: int
    epsilon: int


_PLACES: Mapping[str, _NormArguments] = {
    "native_group_norm.default": _NormArguments((1, 2), 6, 7),
    "group_norm.default": _NormArguments((2, 3), 1, 4),
}
_EPSILON = 1e-5  # PyTorch's default


def group_norm(node: fx.Node, importer: ExportedProgramImporter) -> relax.Var | None:
    """The group norm of a node in one of the cases; None for other nodes."""
    places = _PLACES.get(getattr(node.target, "__name__", ""))
    if places is None:
        return None
    given = [_argument(node, place) for place in places.vectors]
    data = importer.env[node.args[0]]
    type_ = tensor_type(data)
    dtype = str(type_.dtype)
    if dtype != "bfloat16" and all(each is not None for each in given):
        return None
    operands = [
        data,
        *(
            _repeated(type_, number) if each is None else importer.env[each]
            for each, number in zip(given, (1.0, 0.0), strict=True)
        ),
    ]
    epsilon = _argument(node, places.epsilon)
    emit = importer.block_builder.emit
    if dtype == "bfloat16":
        operands = [emit(relax.op.astype(each, "float32")) for each in operands]
    result = emit(
        relax.op.nn.group_norm(
            *operands,
            num_groups=node.args[places.groups],
            channel_axis=1,
            axes=list(range(2, type_.ndim)),
            epsilon=_EPSILON if epsilon is None else epsilon,
        )
    )
    return emit(relax.op.astype(result, dtype)) if dtype == "bfloat16" else result


def _argument(node: fx.Node, place: int) -> object:
    return node.args[place] if place < len(node.args) else None


def _repeated(type_: relax.TensorType, number: float) -> relax.Expr:
    """A vector of one number per channel, in the data type of the data."""
    channels = expect(relax.ShapeExpr, type_.shape).values[1]  # PyTorch divides them, so they are known
    return relax.const(np.full(int(expect(tirx.IntImm, channels)), number, "float32"), str(type_.dtype))
