"""Kinds of operations, as distinguished by cost models and layout planning."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["OpKind", "kind_of"]


class OpKind(StrEnum):
    """The closed set of kinds."""

    ELEMENTWISE = "elementwise"
    CONVOLUTION = "convolution"
    CONTRACTION = "contraction"
    POOLING = "pooling"
    REDUCTION = "reduction"
    NORMALIZATION = "normalization"
    MOVEMENT = "movement"
    CREATION = "creation"
    OTHER = "other"


_ELEMENTWISE = """
    abs acos acosh add asin asinh astype atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil
    clip cos cosh dequantize divide equal erf exp floor floor_divide floor_mod greater greater_equal isfinite
    isinf isnan left_shift less less_equal log log_add_exp logical_and logical_not logical_or logical_xor
    maximum minimum mod multiply negative nn.gelu nn.gelu_tanh nn.leakyrelu nn.prelu nn.relu nn.selu nn.silu
    nn.softplus not_equal power quantize right_shift round rsqrt sigmoid sign sin sinh sqrt square subtract
    tan tanh trunc where
"""
_REDUCTION = "argmax argmin collapse_sum_like collapse_sum_to max mean median min prod std sum variance"
_MOVEMENT = """
    broadcast_to concat dynamic_strided_slice expand_dims flatten flip gather_elements gather_nd
    image.resize2d image.resize3d layout_transform nn.batch_flatten nn.dropout nn.pad nn.pixel_shuffle
    permute_dims repeat reshape split squeeze stack strided_slice take tile
"""
_CREATION = (
    "arange eye eye_like full full_like hamming_window one_hot ones ones_like tril triu zeros zeros_like"
)
_TABLE = {
    f"relax.{name}": kind
    for kind, names in (
        (OpKind.ELEMENTWISE, _ELEMENTWISE),
        (OpKind.REDUCTION, _REDUCTION),
        (OpKind.MOVEMENT, _MOVEMENT),
        (OpKind.CREATION, _CREATION),
        (OpKind.CONTRACTION, "matmul einsum outer nn.attention nn.attention_bias"),
    )
    for name in names.split()
}


def kind_of(name: str) -> OpKind:
    """The kind of the Relax op `name`; `OpKind.OTHER` if it is in no group."""
    if name in _TABLE:
        return _TABLE[name]
    if name.startswith("relax.nn.conv"):
        return OpKind.CONVOLUTION
    if "_pool" in name and name.startswith("relax.nn."):
        return OpKind.POOLING
    is_norm = name.startswith("relax.nn.") and name.endswith(("_norm", "softmax"))
    return OpKind.NORMALIZATION if is_norm else OpKind.OTHER
