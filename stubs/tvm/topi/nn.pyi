"""Tensor expressions of ops of neural networks."""

from collections.abc import Sequence

from ..ir import Expr
from ..te import Tensor

def pad(
    data: Tensor,
    pad_before: Sequence[Expr | int],
    pad_after: Sequence[Expr | int] | None = None,
    pad_value: Expr | float = 0.0,
    name: str = "PadInput",
) -> Tensor: ...
