"""Operators that compute each element by itself."""

from __future__ import annotations

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from kits.importing.drawn_nodes.draw import FLOATS, INTEGERS, NodeDraw, by_name

__all__ = ["FAMILIES"]

UNARY = (
    "Abs",
    "Neg",
    "Exp",
    "Sqrt",
    "Log",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Reciprocal",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Relu",
    "Softplus",
    "Softsign",
    "HardSwish",
    "Mish",
    "Identity",
    "IsNaN",
    "Selu",
)
BINARY = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "PRelu",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
)
TYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")


def unary(draw: NodeDraw) -> None:
    draw.node(draw.one(UNARY), draw.tensor(draw.shape(0), draw.one(FLOATS)))


def with_slopes(draw: NodeDraw) -> None:
    """Functions with numbers as attributes."""
    kind, attributes = draw.one(
        [
            ("LeakyRelu", draw.some(alpha=[0.3, -0.5, 2.0, 0.0])),
            ("Elu", draw.some(alpha=[0.3, 2.0, 0.0])),
            ("Celu", draw.some(alpha=[0.3, 2.0])),
            ("Selu", draw.some(alpha=[0.5, 2.0], gamma=[0.5, 2.0])),
            ("HardSigmoid", draw.some(alpha=[0.1, 0.5, -1.0], beta=[0.0, 0.3, -0.5])),
            ("ThresholdedRelu", draw.some(alpha=[0.5, 1.5, -0.5])),
            ("Shrink", draw.some(bias=[0.2, -0.2], lambd=[0.3, 1.0])),
            ("Gelu", draw.some(approximate=["none", "tanh"])),
            ("IsInf", draw.some(detect_negative=[0, 1], detect_positive=[0, 1])),
            ("Softplus", {}),
        ]
    )
    array = draw.array(draw.shape(0))
    if kind == "IsInf" and array.size:
        array = np.where(draw.array(array.shape, "bool"), np.float32(draw.one([np.inf, -np.inf])), array)
    draw.node(kind, draw.input(np.asarray(array, "float32")), **attributes)


def clip(draw: NodeDraw) -> None:
    dtype = draw.one(("float32", "float32", "float64", "int64", "int32", "int8", "uint8"))
    low, high = sorted(int(each) for each in draw.numbers.integers(0, 5, 2))
    shift = 0 if dtype.startswith("uint") else 2
    bounds = [np.array(each - shift, dtype) for each in ((high, low) if draw.maybe(0.1) else (low, high))]
    names = [draw.given(each, 0.7) if draw.maybe(0.8) else "" for each in bounds]
    draw.node("Clip", draw.tensor(draw.shape(0), dtype), *names)


def binary(draw: NodeDraw) -> None:
    kind = draw.one(BINARY)
    dtype = draw.one(FLOATS if kind in ("Pow", "PRelu") else (*FLOATS, *INTEGERS))
    left, right = _pair(draw)
    if kind == "PRelu":
        left = tuple(max(pair) for pair in zip(left[-len(right) :], right, strict=False)) if right else left
        left = left or (2,)
        right = tuple(draw.one([1, each]) for each in left)
    numbers = draw.array(right, dtype)
    if kind == "Div" and dtype in INTEGERS:
        numbers = np.where(numbers == 0, np.ones_like(numbers), numbers)
    draw.node(kind, draw.tensor(left, dtype), draw.given(np.asarray(numbers, dtype), 0.4))


def powers(draw: NodeDraw) -> None:
    """Bases and exponents of different types."""
    base, exponent = (
        draw.one(("float32", "int64", "int32", "float64")),
        draw.one(("float32", "int64", "int32")),
    )
    left, right = _pair(draw)
    exponents = np.floor(np.abs(draw.array(right, exponent))) % 4  # of negative integers, too
    draw.node("Pow", draw.tensor(left, base), draw.given(np.asarray(exponents, exponent), 0.5))


def several(draw: NodeDraw) -> None:
    kind, dtype = draw.one(("Max", "Min", "Mean", "Sum")), draw.one(FLOATS)
    shapes = [*_pair(draw), *_pair(draw)[:1]][: draw.rng.randint(1, 3)]
    whole = draw.shape(1, 3)
    shapes = [tuple(draw.one([1, each]) for each in whole)[draw.rng.randint(0, len(whole)) :] for _ in shapes]
    draw.node(kind, *(draw.tensor(each, dtype) for each in shapes))


def remainder(draw: NodeDraw) -> None:
    dtype = draw.one(("float32", "int64", "int32", "int8", "uint8"))
    left, right = _pair(draw)
    numbers = draw.array(right, dtype)
    numbers = np.where(numbers == 0, np.ones_like(numbers), numbers)
    attributes = {"fmod": 1} if dtype == "float32" else draw.some(fmod=[0, 1])
    draw.node("Mod", draw.tensor(left, dtype), draw.given(np.asarray(numbers, dtype), 0.4), **attributes)


def logical(draw: NodeDraw) -> None:
    left, right = _pair(draw)
    kind = draw.one(("And", "Or", "Xor", "Equal", "Not"))
    operands = [draw.tensor(left, "bool"), draw.tensor(right, "bool")]
    draw.node(kind, *operands[: 1 if kind == "Not" else 2])


def bitwise(draw: NodeDraw) -> None:
    left, right = _pair(draw)
    dtype = draw.one(INTEGERS)
    kind = draw.one(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    operands = [draw.tensor(left, dtype), draw.tensor(right, dtype)]
    draw.node(kind, *operands[: 1 if kind == "BitwiseNot" else 2])


def shifts(draw: NodeDraw) -> None:
    left, right = _pair(draw)
    dtype = draw.one(("uint8", "uint32", "uint64"))
    draw.node(
        "BitShift", draw.tensor(left, dtype), draw.tensor(right, dtype), direction=draw.one(["LEFT", "RIGHT"])
    )


def choice(draw: NodeDraw) -> None:
    whole = draw.shape(1, 4)
    shapes = [
        tuple(draw.one([1, each]) for each in whole)[draw.rng.randint(0, len(whole)) :] for _ in range(3)
    ]
    dtype = draw.one(TYPES)
    draw.node("Where", draw.tensor(shapes[0], "bool"), *(draw.tensor(each, dtype) for each in shapes[1:]))


def cast(draw: NodeDraw) -> None:
    """Of numbers that every type holds."""
    numbers = np.abs(draw.array(draw.shape(0), "float32"))
    given, wanted = draw.one(TYPES), draw.one(TYPES)
    operand = draw.given(np.asarray(numbers, given), 0.2)
    if draw.maybe(0.2):
        draw.node("CastLike", operand, draw.tensor((1,), wanted))
    else:
        draw.node("Cast", operand, to=np_dtype_to_tensor_dtype(np.dtype(wanted)))


def _pair(draw: NodeDraw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast."""
    whole = draw.shape(0, 4)
    left, right = (tuple(draw.one([1, each, each]) for each in whole) for _ in range(2))
    cut = draw.rng.randint(0, len(whole))
    return (left[cut:], right) if draw.maybe() else (left, right[cut:])


FAMILIES = by_name(
    unary,
    with_slopes,
    clip,
    binary,
    powers,
    several,
    remainder,
    logical,
    bitwise,
    shifts,
    choice,
    cast,
)
