"""How much work an op is: floating point operations, and bytes read and written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.targets.op_view import OpView

__all__ = ["UNKNOWN_EXTENT", "Work", "bytes_moved", "extents", "size_of", "work_of"]

UNKNOWN_EXTENT = 16
"""What an extent counts as when it is known only at run time."""


@dataclass(frozen=True, slots=True)
class Work:
    """Floating point operations (a multiply-add is two), and bytes read plus bytes written."""

    flops: float
    bytes: float

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes)


def work_of(op: OpView) -> Work:
    """The work of one op.

    Convolutions and products count their multiply-adds, reductions their inputs, what moves no data
    nothing, transcendental functions 10 a result, and everything else one operation a result.
    """
    moved = bytes_moved(op)
    count = _COUNTERS.get(op.name.removeprefix("relax."), _elementwise)
    return Work(count(op), 0.0 if count is _nothing else moved)


def extents(ty: tvm.ir.Type) -> list[int]:
    """The shape of a tensor type; extents known only at run time count as `UNKNOWN_EXTENT`."""
    if not isinstance(ty, relax.TensorType) or ty.shape is None or not hasattr(ty.shape, "values"):
        return []
    return [
        int(extent) if isinstance(extent, tvm.tirx.IntImm) else UNKNOWN_EXTENT for extent in ty.shape.values
    ]


def size_of(ty: tvm.ir.Type) -> int:
    """Bytes of a value of a tensor or tuple type; 0 for what is no data."""
    if isinstance(ty, tvm.ir.TupleType):
        return sum(size_of(part) for part in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.dtype is None:
        return 0
    return (math.prod(extents(ty)) * int(tvm.DataType(str(ty.dtype)).bits) + 7) // 8


def bytes_moved(op: OpView) -> float:
    """Bytes of all arguments and of the result."""
    return float(sum(size_of(ty) for ty in op.arg_types) + size_of(op.out_type))


def _results(op: OpView) -> float:
    ty = op.out_type
    parts = list(ty.fields) if isinstance(ty, tvm.ir.TupleType) else [ty]
    return float(sum(math.prod(extents(part)) for part in parts))


def _elementwise(op: OpView) -> float:
    return _results(op)


def _transcendental(op: OpView) -> float:
    return 10.0 * _results(op)


def _nothing(_op: OpView) -> float:
    return 0.0


def _moving(_op: OpView) -> float:
    return 0.0


def _inputs(op: OpView) -> float:
    return float(sum(math.prod(extents(ty)) for ty in op.arg_types if isinstance(ty, relax.TensorType)))


def _convolution(op: OpView) -> float:
    weight = extents(op.arg_types[1])
    layout = str(op.attrs.get("kernel_layout", "OIHW"))
    per_result = math.prod(extent for axis, extent in zip(layout, weight, strict=False) if axis != "O")
    return 2.0 * _results(op) * per_result


def _transposed_convolution(op: OpView) -> float:
    weight = extents(op.arg_types[1])
    layout = str(op.attrs.get("kernel_layout", "IOHW"))
    per_input = math.prod(extent for axis, extent in zip(layout, weight, strict=False) if axis != "I")
    return 2.0 * math.prod(extents(op.arg_types[0])) * per_input


def _product(op: OpView) -> float:
    inner = extents(op.arg_types[0])
    return 2.0 * _results(op) * (inner[-1] if inner else 1)


def _window(op: OpView) -> float:
    return _results(op) * math.prod(int(extent) for extent in op.attrs.get("pool_size", (1,)))


def _normalisation(op: OpView) -> float:
    return 8.0 * math.prod(extents(op.arg_types[0]))


_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_TRANSPOSED = tuple(f"{name}_transpose" for name in _CONVOLUTIONS)
_POOLS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_SOFTMAX = ("nn.softmax", "nn.log_softmax")
_NORMS = tuple(f"nn.{kind}_norm" for kind in ("layer", "rms", "group", "instance", "batch"))
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "variance", "std", "nn.adaptive_avg_pool2d")
_ACTIVATIONS = ("sigmoid", "tanh", "erf", "nn.gelu", "nn.gelu_tanh", "nn.silu")
_FUNCTIONS = ("exp", "log", "power", "sqrt", "rsqrt")
_VIEWS = ("reshape", "expand_dims", "squeeze", "flatten")
_MOVES = ("permute_dims", "concat", "split", "strided_slice", "take", "broadcast_to", "nn.pad", "astype")

_COUNTERS: dict[str, Callable[[OpView], float]] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **dict.fromkeys(_TRANSPOSED, _transposed_convolution),
    "matmul": _product,
    **dict.fromkeys(_POOLS, _window),
    **dict.fromkeys((*_SOFTMAX, *_NORMS), _normalisation),
    **dict.fromkeys(_REDUCTIONS, _inputs),
    **dict.fromkeys((*_ACTIVATIONS, *_FUNCTIONS), _transcendental),
    **dict.fromkeys(_VIEWS, _nothing),
    **dict.fromkeys(_MOVES, _moving),
}
