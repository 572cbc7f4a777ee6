"""Group norms that TVM 0.27's importer fails to convert.

*   Without scale or shift: it passes None for the missing vectors, which its group norm rejects. It uses ones
    and zeros for layer norm and instance norm, and so does this converter.
*   Of bfloat16, which its group norm does not support, and with vectors of another type than the data. The
    data is cast to float32 before and back after it, as the group norm of float16 does internally: sums in
    float32, one rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)


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


@converts(*_PLACES)
def group_norm(node: TorchNode) -> relax.Expr | None:
    """The group norm in one of the cases; others are left to TVM's importer."""
    places = _PLACES[node.name]
    given = [node.argument(place) for place in places.vectors]
    data, dtype = node.tensor(0), dtype_of_tensor(node.tensor(0))
    is_mixed = any(isinstance(each, relax.Expr) and dtype_of_tensor(each) != dtype for each in given)
    is_wide = dtype == "bfloat16" or is_mixed
    if not is_wide and all(each is not None for each in given):
        return None
    vectors = (
        each if isinstance(each, relax.Expr) else _repeated(data, number)
        for each, number in zip(given, (1.0, 0.0), strict=True)
    )
    operands = [data, *vectors]
    if is_wide:
        operands = [node.cast(each, "float32") for each in operands]
    result = node.emit(
        relax.op.nn.group_norm(
            *operands,
            num_groups=node.argument(places.groups),
            channel_axis=1,
            axes=list(range(2, len(extents_of_tensor(data)))),
            epsilon=node.argument(places.epsilon, "eps", _EPSILON),
        )
    )
    return node.cast(result, dtype)


def _repeated(data: relax.Expr, number: float) -> relax.Expr:
    """A vector of one number per channel, in the data type of the data."""
    channels = extents_of_tensor(data)[1]
    assert isinstance(channels, int)  # PyTorch divides them, so they are known
    return relax.const(np.full(channels, number, "float32"), dtype_of_tensor(data))
