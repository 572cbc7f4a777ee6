"""The roles of ops in quantization: products multiply int8, carriers pass it on, sums and means read it.

1.  A *product* (convolution, matrix product) is the reason for rounding: it multiplies integers.
2.  A *carrier* returns elements of its operands unchanged: int8 operands give an int8 result with the same
    scale.
3.  A *curve* is an element-wise function between a product and the rounding of its result, which engines
    fuse with the product.
4.  A *mean* reads int8 if its operand is rounded anyway.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.targets.op_view import OpView

__all__ = [
    "CARRIERS",
    "CURVES",
    "MEANS",
    "PRODUCTS",
    "channel_axis",
    "is_float",
    "operands_of",
    "result_axis",
    "rounded_positions",
    "why_float",
]

_CONVOLUTIONS = frozenset(f"relax.nn.conv{rank}d" for rank in (1, 2, 3))
PRODUCTS = _CONVOLUTIONS | {"relax.matmul"}
CARRIERS = frozenset(
    f"relax.{name}"
    for name in (
        *("concat", "expand_dims", "flatten", "permute_dims", "reshape", "squeeze"),
        *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
    )
)
CURVES = frozenset(
    f"relax.{name}"
    for name in (
        *(
            "clip",
            "sigmoid",
            "tanh",
            "nn.relu",
            "nn.relu6",
            "nn.leakyrelu",
            "nn.gelu",
            "nn.gelu_tanh",
            "nn.silu",
        ),
        *("nn.hardswish", "nn.softplus"),
    )
)
MEANS = frozenset(
    ("relax.mean", *(f"relax.nn.{name}_pool2d" for name in ("avg", "adaptive_avg"))),
)


def is_float(expr: relax.Expr) -> bool:
    """Whether an expression is a tensor of float32."""
    return isinstance(expr.ty, relax.TensorType) and str(expr.ty.dtype) == "float32"


def operands_of(view: OpView) -> list[relax.Expr]:
    """The tensors that an op reads, those in a tuple included."""
    parts = [arg.fields if isinstance(arg, relax.Tuple) else [arg] for arg in view.args]
    return [each for fields in parts for each in fields]


def why_float(view: OpView) -> str | None:
    """Why a product cannot be int8; None if it can."""
    if not all(is_float(arg) for arg in view.args[:2]) or str(view.out_tensor.dtype) != "float32":
        return "its numbers are not of float32"
    if not isinstance(view.args[0], relax.Var):
        return "its left operand is a constant"
    weight = view.constant(1)
    if weight is None:
        return "its weight is computed" if view.name in _CONVOLUTIONS else _why_ranks(view)
    if not np.isfinite(weight).all():
        return "its weight has elements that are not finite"
    is_stack = view.name == "relax.matmul" and weight.ndim != 2
    return f"its weight has {weight.ndim} axes" if is_stack else None


def _why_ranks(view: OpView) -> str | None:
    ranks = [view.arg_tensor(number).ndim for number in (0, 1)]
    return None if min(ranks) >= 2 else "an operand has a single axis"


def rounded_positions(view: OpView) -> tuple[int, ...]:
    """The positions of the operands of a product that are activations, rounded by their observed range."""
    return (0,) if view.constant(1) is not None else (0, 1)


def channel_axis(view: OpView) -> int:
    """The axis of a constant weight that corresponds to the channels of the result."""
    return 1 if view.name == "relax.matmul" else str(view.attrs["kernel_layout"]).index("O")


def result_axis(view: OpView) -> int:
    """The axis of a product's result along which its channels lie."""
    if view.name == "relax.matmul":
        return int(view.out_tensor.ndim) - 1
    return str(view.attrs["out_layout"] or view.attrs["data_layout"]).index("C")
