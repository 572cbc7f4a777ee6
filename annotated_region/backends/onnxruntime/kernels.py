"""The data types that ONNX Runtime's kernels on CPUs take, and what computes in a wider type instead.

Kernels as ONNX Runtime 1.17 lists them in its ``OperatorKernels.md``; later releases have more. ``float16``
counts as known where ``float32`` is, because a session widens it by itself. ``bfloat16`` it does not widen:
an operator over it becomes one over ``float32`` between two conversions, as one over bytes becomes one over
``int32``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from annotated_region.backends.onnx_emitter.dialect import Restriction

__all__ = ["ALL", "KERNELS", "RESTRICTIONS", "WIDER", "WIDE_TRUTH"]

_BFLOAT = frozenset(("bfloat16",))
_BYTES = frozenset(("int8", "uint8"))
_WORDS = frozenset(("int16", "uint16", "uint32"))
_BOOL = frozenset(("bool",))
_SINGLE = frozenset(("float16", "float32"))
_FLOATS = _SINGLE | {"float64"}
_NUMBERS = _FLOATS | {"int32", "int64"}
_INTEGERS = _BYTES | _WORDS | {"int32", "int64"}
_PLAIN = _NUMBERS | _BYTES | _WORDS | _BOOL

ALL = _PLAIN | _BFLOAT
"""The data types of tensors; what an operator takes that the table does not name."""

KERNELS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Conv", "ConvTranspose", "Cosh",
            "Erf", "Gelu", "GlobalAveragePool", "GridSample", "InstanceNormalization", "LayerNormalization",
            "LeakyRelu", "PRelu", "Selu", "Sinh", "Softplus", "Tan",
        ),
        _SINGLE,
    ),
    **dict.fromkeys(
        (
            "BatchNormalization", "Ceil", "Cos", "Exp", "Floor", "IsInf", "IsNaN", "Log", "LogSoftmax",
            "Reciprocal", "ReduceMean", "RoiAlign", "Round", "Sigmoid", "Sin", "Softmax", "Sqrt", "Tanh",
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        (
            "Add", "CumSum", "Div", "Einsum", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul",
            "Max", "Min", "Mul", "Pow", "ReduceSum", "Sub", "TopK",
        ),
        _NUMBERS,
    ),
    **dict.fromkeys(("Abs", "Clip", "Mod", "ReduceMax", "ReduceMin", "Sign"), _NUMBERS | _BYTES),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _INTEGERS),
    **dict.fromkeys(("And", "Not", "Or", "Xor"), _BOOL),
    **dict.fromkeys(("Expand", "ReverseSequence", "Size", "Tile"), _PLAIN),
    "Pad": _NUMBERS | _BYTES | _BOOL,
    "ArgMax": _NUMBERS | _BYTES,
    "ArgMin": _NUMBERS | _BYTES,
    "DequantizeLinear": _BYTES | {"int32"},
    "Equal": _NUMBERS | _BOOL,
    "MaxPool": _FLOATS | _BYTES,
    "Neg": _NUMBERS | {"int8"},
    "OneHot": _SINGLE | {"int64"},
    "QuantizeLinear": frozenset(("float32",)),
    "Range": _NUMBERS - {"float16"},
    "ReduceProd": _SINGLE | {"int32", "int64"},
    "Relu": _FLOATS | {"int32"},
    "Resize": _SINGLE | _BYTES | {"int32"},
    "Trilu": _NUMBERS | _BOOL,
    "Where": _NUMBERS | {"uint8"},
}  # fmt: skip

# What scattering takes where it replaces, but not where it reduces; its table of kernels does not say so.
_UNREDUCED = {
    ("ScatterElements", "add"): ("float16", "bfloat16"),
    ("ScatterElements", "mul"): ("float16", "bfloat16"),
    ("ScatterElements", "max"): ("bool", "bfloat16"),
    ("ScatterElements", "min"): ("bool", "bfloat16"),
    ("ScatterND", "add"): ("float16", "bfloat16"),
    ("ScatterND", "mul"): ("float16", "bfloat16"),
    ("ScatterND", "max"): ("bool", "float16", "bfloat16"),
    ("ScatterND", "min"): ("bool", "float16", "bfloat16"),
}


def _reduction(operator: str, attrs: Mapping[str, object], dtypes: Sequence[str]) -> str | None:
    reduction = str(attrs.get("reduction"))
    unknown = [dtype for dtype in _UNREDUCED.get((operator, reduction), ()) if dtype in dtypes]
    return f"the reduction {reduction} of {unknown[0]}" if unknown else None


RESTRICTIONS: Mapping[str, Restriction] = {
    name: partial(_reduction, name) for name in ("ScatterElements", "ScatterND")
}
"""What an operator does not take although its kernel is there."""

WIDER: Mapping[str, str] = {
    "bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "uint32": "int64", "float16": "float32", "bfloat16": "float32",
}  # fmt: skip
"""In which type to compute where a kernel is missing; whole numbers lose the upper bits on the way back."""

WIDE_TRUTH = frozenset(("ArgMax", "ArgMin", "Max", "Min", "ReduceMax", "ReduceMin", "TopK", "Where"))
"""What chooses among truth values, so that 0 and 1 can stand for them."""
