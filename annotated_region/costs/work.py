"""The work of ops: floating point operations, and bytes read and written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annotated_region.targets.op_view import OpView

__all__ = ["Work", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """Floating point operations (a multiply-add is two), and bytes read plus bytes written."""

    flops: float
    bytes: float

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes)


def work_of(op: OpView) -> Work:
    """The work of one op.

    Convolutions and products count their multiply-adds, reductions their inputs, views nothing,
    transcendental functions 10 operations per result element, and other ops one per result element.
    """
    count = _COUNTERS.get(op.name.removeprefix("relax."), _elementwise)
    return Work(count(op), 0.0 if count is _nothing else float(op.arg_bytes + op.out_bytes))


def _results(op: OpView) -> float:
    return float(sum(map(math.prod, op.out_extents)))


def _elementwise(op: OpView) -> float:
    return _results(op)


def _transcendental(op: OpView) -> float:
    return 10.0 * _results(op)


def _nothing(_op: OpView) -> float:
    return 0.0


def _moving(_op: OpView) -> float:
    return 0.0


def _inputs(op: OpView) -> float:
    return float(sum(map(math.prod, op.tensor_extents)))


def _convolution(op: OpView) -> float:
    weight = op.arg_extents(1)
    layout = str(op.attrs.get("kernel_layout", "OIHW"))
    per_result = math.prod(extent for axis, extent in zip(layout, weight, strict=False) if axis != "O")
    return 2.0 * _results(op) * per_result


def _transposed_convolution(op: OpView) -> float:
    weight = op.arg_extents(1)
    layout = str(op.attrs.get("kernel_layout", "IOHW"))
    per_input = math.prod(extent for axis, extent in zip(layout, weight, strict=False) if axis != "I")
    return 2.0 * math.prod(op.arg_extents(0)) * per_input


def _product(op: OpView) -> float:
    inner = op.arg_extents(0)
    return 2.0 * _results(op) * (inner[-1] if inner else 1)


def _window(op: OpView) -> float:
    return _results(op) * math.prod(int(extent) for extent in op.attrs.get("pool_size", (1,)))


def _normalisation(op: OpView) -> float:
    return 8.0 * math.prod(op.arg_extents(0))


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
