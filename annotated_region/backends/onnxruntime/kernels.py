"""The data types that ONNX Runtime's CPU kernels support, and the operators to compute in a wider type.

The kernels are those that ONNX Runtime 1.17 lists in its ``OperatorKernels.md``; later releases have more.
``float16`` is supported wherever ``float32`` is, because a session widens it automatically. ``bfloat16`` is
not widened: an operator on it is computed in ``float32`` between two casts, as an operator on bytes is
computed in ``int32``.
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
"""All data types of tensors, which operators accept that the table does not list."""

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
    **dict.fromkeys(("GRU", "LSTM", "RNN"), frozenset(("float32",))),
    "Pad": _NUMBERS | _BYTES | _BOOL,
    "ArgMax": _NUMBERS | _BYTES,
    "ArgMin": _NUMBERS | _BYTES,
    "ConvInteger": frozenset(("uint8",)),
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

# Types that scattering supports without a reduction, but not with one; the table of kernels omits this.
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
"""Restrictions of operators beyond the data types of their kernels."""

WIDER: Mapping[str, str] = {
    "bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "uint32": "int64", "float16": "float32", "bfloat16": "float32",
}  # fmt: skip
"""The type to compute in if a kernel is missing; integers are truncated on the way back."""

WIDE_TRUTH = frozenset(("ArgMax", "ArgMin", "Max", "Min", "ReduceMax", "ReduceMin", "TopK", "Where"))
"""Operators that select among booleans, so that booleans can be represented by 0 and 1."""
