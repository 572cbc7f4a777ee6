"""What stands behind an operator in float32: functions, constants and inputs of each shape, and moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from kits.onnx_nodes import Node

__all__ = ["GROUPS", "TAILS", "Extents", "Tail"]

Extents = tuple[int | str, ...]
"""Of a result; those that depend on the number of images are `n`, or another name where they are not it."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Operators from `p` to `y`.

    Attributes
    ----------
    name
        For a report.
    group
        The tails that are in one model.
    nodes
        The operators; they may read `c`, a constant, or `o`, an input.
    operand
        How `c` or `o` are broadcast.
    rank
        The least number of axes of `p`; four are meant exactly.
    """

    name: str
    group: str
    nodes: Sequence[onnx.NodeProto]
    operand: str = ""
    rank: int = 0

    def fits(self, shape: Extents) -> bool:
        """Whether `p` may have this shape."""
        is_broadcast = not self.operand or _operand_shape(self.operand, shape) is not None
        return is_broadcast and (len(shape) == self.rank if self.rank == 4 else len(shape) >= self.rank)

    def inputs(self, shape: Extents) -> dict[str, Extents]:
        """The shapes of its inputs; those of `d` are divisors."""
        return dict.fromkeys(("o", "d"), self._shape(shape))

    def constants(self, shape: Extents) -> dict[str, np.ndarray]:
        """Numbers around 0, positive ones, and small exponents."""
        extents = [each for each in self._shape(shape) if isinstance(each, int)]
        draw = np.random.default_rng(len(self.name))
        return {
            "c": draw.standard_normal(extents, "float32"),
            "positive": draw.uniform(0.5, 2, extents).astype("float32"),
            "exponent": draw.integers(1, 4, extents).astype("float32"),
            "others": draw.standard_normal(extents, "float32"),
        }

    def _shape(self, shape: Extents) -> Extents:
        return (_operand_shape(self.operand, shape) if self.operand else None) or ()


def _operand_shape(kind: str, shape: Extents) -> Extents | None:
    """The shape of an operand that is broadcast to this one; None if there is none."""
    rank = len(shape)
    if kind == "number":
        return ()
    if kind == "stack":
        return (2, *[1] * rank)
    if kind == "halves":
        return () if len(shape) > 1 and shape[1] not in ("n", "m", 1) else None
    if kind == "matrix":
        return _counted((*shape[-1:], 5))
    if kind == "columns":
        return _counted(shape[-1:])
    if kind == "rows":
        return _counted((*shape[-2:-1], 1)) if rank > 1 else None
    if kind == "whole":
        return _counted(shape[1:])
    if kind == "channels":
        return _counted((shape[1], *[1] * (rank - 2))) if rank > 1 else None
    if any(each not in ("n", 1) and isinstance(each, str) for each in shape):
        return None
    if kind == "full":
        return shape
    if kind == "image":
        return tuple(each if each == "n" else 1 for each in shape)
    assert kind == "vectors"
    return tuple(each if each == "n" or axis < 2 else 1 for axis, each in enumerate(shape))


def _counted(shape: Extents) -> Extents | None:
    return shape if all(isinstance(each, int) for each in shape) else None


def _of_constants() -> Iterator[Tail]:
    binary = {
        "add": [Node("Add", "p c")],
        "subtract": [Node("Sub", "p c")],
        "from": [Node("Sub", "c p")],
        "times": [Node("Mul", "p c")],
        "divide": [Node("Div", "p positive")],
        "quotient": [Node("Div", "c p")],
        "maximum": [Node("Max", "p c")],
        "minimum": [Node("Min", "c p")],
        "power": [Node("Pow", "p exponent")],
        "prelu": [Node("PRelu", "p c")],
        "times_add": [Node("Mul", "p c", "t"), Node("Add", "t others")],
        "add_relu": [Node("Add", "p c", "t"), Node("Relu", "t")],
        "divide_add": [Node("Div", "p positive", "t"), Node("Add", "t others")],
        "greater": [Node("Greater", "p c", "m"), Node("Where", "m p c")],
        "less": [Node("LessOrEqual", "p c", "m"), Node("Cast", "m", to=1)],
        "relu_times": [Node("Relu", "p", "t"), Node("Mul", "t c")],
    }
    for kind in ("number", "channels", "columns", "rows", "whole", "stack"):
        for name, nodes in binary.items():
            if (kind, name) not in (("stack", "prelu"), ("rows", "prelu")):
                yield Tail(f"{name} {kind}", f"constant {kind}", nodes, kind)


def _of_inputs() -> Iterator[Tail]:
    binary = {
        "add": [Node("Add", "p o")],
        "subtract": [Node("Sub", "p o")],
        "from": [Node("Sub", "o p")],
        "times": [Node("Mul", "o p")],
        "divide": [Node("Div", "p d")],
        "quotient": [Node("Div", "o p")],
        "maximum": [Node("Max", "p o")],
        "minimum": [Node("Min", "o p")],
        "prelu": [Node("PRelu", "p o")],
        "add_relu": [Node("Add", "p o", "t"), Node("Relu", "t")],
        "relu_add": [Node("Relu", "p", "t"), Node("Add", "t o")],
        "add_function": [Node("Tanh", "o", "t"), Node("Add", "t p")],
        "greater": [Node("Greater", "p o", "m"), Node("Where", "m p o")],
        "add_times": [Node("Add", "p o", "t"), Node("Mul", "t half")],
    }
    for kind in ("number", "channels", "full", "image", "vectors"):
        for name, nodes in binary.items():
            if name != "prelu" or kind in ("number", "channels", "full"):
                yield Tail(f"{name} {kind}", f"input {kind}", nodes, kind)


FUNCTIONS: Mapping[str, Sequence[onnx.NodeProto]] = {
    **{
        name.lower(): [Node(name, "p")]
        for name in (
            "Relu", "Sigmoid", "Tanh", "Gelu", "HardSwish", "HardSigmoid", "Mish", "Elu", "LeakyRelu",
            "Softplus", "Softsign", "Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Erf", "Sin",
        )
    },
    "gelu_tanh": [Node("Gelu", "p", approximate="tanh")],
    "silu": [Node("Sigmoid", "p", "t"), Node("Mul", "p t")],
    "clip": [Node("Clip", "p low high")],
    "clip_low": [Node("Clip", "p low")],
    "six": [Node("Clip", "p none six")],
    "square": [Node("Mul", "p p")],
    "double": [Node("Add", "p p")],
    "root": [Node("Abs", "p", "t"), Node("Sqrt", "t")],
    "exponential": [Node("Clip", "p low high", "t"), Node("Exp", "t")],
    "log": [Node("Abs", "p", "t"), Node("Add", "t half", "u"), Node("Log", "u")],
    "reciprocal": [Node("Abs", "p", "t"), Node("Add", "t half", "u"), Node("Reciprocal", "u")],
    "residual": [Node("Relu", "p", "t"), Node("Add", "p t")],
    "not_less": [Node("Less", "p none", "m"), Node("Not", "m", "k"), Node("Where", "k p half")],
    "from_itself": [Node("Sigmoid", "p", "t"), Node("Sub", "p t")],
}  # fmt: skip

_OPERANDS = {"swapped_product": "matrix", "split": "halves"}

MOVES: Mapping[str, tuple[int, Sequence[onnx.NodeProto]]] = {
    "transpose": (0, [Node("Transpose", "p")]),
    "flat": (1, [Node("Flatten", "p")]),
    "transpose_flat": (2, [Node("Transpose", "p", "t"), Node("Flatten", "t")]),
    "split": (2, [Node("Split", "p", "y rest", axis=1, num_outputs=2)]),
    "slice": (2, [Node("Slice", "p zeros1 end1 last")]),
    "reverse": (2, [Node("Slice", "p last least last last")]),
    "joined": (2, [Node("Concat", "p p", axis=1)]),
    "joined_function": (2, [Node("Relu", "p", "t"), Node("Concat", "t p", axis=1)]),
    "softmax": (1, [Node("Softmax", "p", axis=-1)]),
    "softmax_channels": (2, [Node("Softmax", "p", axis=1)]),
    "sum_line": (1, [Node("ReduceSum", "p last", keepdims=0)]),
    "mean_kept": (2, [Node("ReduceMean", "p first")]),
    "max_line": (1, [Node("ReduceMax", "p last", keepdims=0)]),
    "min_channels": (2, [Node("ReduceMin", "p first", keepdims=0)]),
    "sum_all": (0, [Node("ReduceSum", "p", keepdims=0)]),
    "sum_images": (1, [Node("ReduceSum", "p zeros1", keepdims=0)]),
    "tile": (4, [Node("Tile", "p repeats")]),
    "pad": (4, [Node("Pad", "p widths")]),
    "gather": (2, [Node("Gather", "p zero", axis=1)]),
    "unsqueeze": (0, [Node("Unsqueeze", "p zeros1")]),
    "cumsum": (2, [Node("CumSum", "p one")]),
    "centred": (2, [Node("ReduceMean", "p last", "t"), Node("Sub", "p t")]),
    "centred_channels": (2, [Node("ReduceMean", "p first", "t"), Node("Sub", "p t")]),
    "normed": (
        2,
        [
            Node("Abs", "p", "a"), Node("ReduceSum", "a first", "t"), Node("Add", "t half", "u"),
            Node("Div", "p u"),
        ],
    ),
    "scaled_norm": (2, [
        Node("Mul", "p p", "a"), Node("ReduceMean", "a last", "t"), Node("Add", "t half", "u"),
        Node("Sqrt", "u", "v"), Node("Div", "p v"),
    ]),
    "swapped_product": (3, [Node("Transpose", "p", "t"), Node("Transpose", "t", "u"), Node("MatMul", "u c")]),
    "nearest": (4, [Node("Resize", "p - factors", mode="nearest")]),
    "largest": (4, [Node("MaxPool", "p", kernel_shape=[2, 1], pads=[1, 0, 0, 0])]),
    "means": (4, [Node("AveragePool", "p", kernel_shape=[1, 2], pads=[0, 1, 0, 0])]),
    "global_mean": (3, [Node("GlobalAveragePool", "p")]),
}  # fmt: skip

QUANTIZED: Mapping[str, Sequence[onnx.NodeProto]] = {
    "bytes": [Node("QuantizeLinear", "p scale middle", "q"), Node("DequantizeLinear", "q scale middle")],
    "signed": [Node("QuantizeLinear", "p scale nil", "q"), Node("DequantizeLinear", "q scale nil")],
    "relu_bytes": [
        Node("Relu", "p", "t"), Node("QuantizeLinear", "t scale nil8", "q"),
        Node("DequantizeLinear", "q scale nil8"),
    ],
    "factor_bytes": [
        Node("Mul", "p half", "t"), Node("QuantizeLinear", "t scale middle", "q"),
        Node("DequantizeLinear", "q scale middle"),
    ],
    "bytes_twice": [
        Node("QuantizeLinear", "p scale middle", "q"), Node("DequantizeLinear", "q scale middle", "t"),
        Node("Add", "t p"),
    ],
}  # fmt: skip

TAILS: tuple[Tail, ...] = (
    *_of_constants(),
    *_of_inputs(),
    *(Tail(name, "functions", nodes) for name, nodes in FUNCTIONS.items()),
    *(Tail(name, "moves", nodes, _OPERANDS.get(name, ""), rank) for name, (rank, nodes) in MOVES.items()),
    *(Tail(name, "quantized", nodes) for name, nodes in QUANTIZED.items()),
)

GROUPS = tuple(dict.fromkeys(each.group for each in TAILS))
