"""The data types for which OpenVINO's CPU plugin computes what ONNX defines, operator by operator.

The plugin computes in fewer types than it accepts: float64 in float32, int64 and uint32 in int32, and much of
int32 in float32, which has 24 bits; 8-bit results saturate, where those of ONNX and TVM wrap. The table lists
the types whose results were bitwise equal to those of ONNX Runtime for integers of all magnitudes
(``tests/backends/openvino/test_openvino_kernels.py``). int64 is supported where it counts elements: extents,
positions and indices. bfloat16 is not supported, because the plugin truncates float32 to it instead of
rounding, and remainders of floats are not, because OpenVINO 2026.4 computes ``x - trunc(x / y) * y`` with a
rounded quotient: 0 instead of 0.7 for 2.1 and 0.7, whose quotient is just below 3. Two operators are not
supported: TopK, because the order of equal elements is undefined, and OneHot, because nothing guarantees that
its indices fit into int32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotated_region.backends.onnx_emitter import Dialect
from annotated_region.backends.onnx_emitter.dialect import Restriction
from annotated_region.tvm_adapter.types import expect

__all__ = ["DIALECT", "TARGET"]

TARGET = "openvino"

_FLOATS = frozenset(("float16", "float32"))
_BYTES = frozenset(("int8", "uint8"))
_BOOL = frozenset(("bool",))
_NUMBERS = _FLOATS | {"int32"}
_ALL = _NUMBERS | _BYTES | _BOOL

_KERNELS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "BatchNormalization", "Ceil",
            "Conv", "ConvTranspose", "Cos", "Cosh", "Div", "Einsum", "Erf", "Exp", "Floor", "Gelu",
            "GlobalAveragePool", "GridSample", "InstanceNormalization", "IsInf", "IsNaN",
            "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "MatMul", "PRelu", "Pow", "Reciprocal",
            "ReduceMean", "ReduceProd", "ReduceSum", "Relu", "Resize", "RoiAlign", "Round", "Selu", "Sigmoid",
            "Sin", "Sinh", "Softmax", "Softplus", "Sqrt", "Tan", "Tanh",
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        ("Abs", "Add", "Clip", "CumSum", "Max", "Min", "Mul", "Neg", "Range", "Sign", "Sub"), _NUMBERS
    ),
    **dict.fromkeys(("MaxPool", "ReduceMax", "ReduceMin"), _FLOATS | _BYTES),
    **dict.fromkeys(
        ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "ReverseSequence", "Trilu"),
        _FLOATS | _BYTES | _BOOL,
    ),
    **dict.fromkeys(
        (
            "Concat", "ConstantOfShape", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Pad",
            "Reshape", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Tile", "Transpose",
            "Unsqueeze", "Where",
        ),
        _ALL,
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), _FLOATS | _BYTES),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _BYTES | {"int32"}),
    **dict.fromkeys(("And", "Not", "Or", "Xor"), _BOOL),
    **dict.fromkeys(("Cast", "Shape", "Size"), _ALL | {"int64"}),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), frozenset(("float32",))),
    "DequantizeLinear": _BYTES,
    "Mod": _BYTES,
    "QuantizeLinear": frozenset(("float32",)),
}  # fmt: skip

_WIDER = {"bool": "int32", "int8": "int32", "uint8": "int32"}


def _cast(attrs: Mapping[str, object], dtypes: Sequence[str]) -> str | None:
    (given,), wanted = dtypes, attrs["to"]
    if wanted == "bool" and given not in _BYTES:
        return f"{given} as bool, which turns NaN and the smallest number into false"
    if wanted == "int64" and given in _FLOATS:
        return f"{given} as int64, which saturates at 32 bits"
    return None


def _padding(attrs: Mapping[str, object], _dtypes: Sequence[str]) -> str | None:
    return "circular padding" if attrs.get("mode") == "wrap" else None


def _resize(attrs: Mapping[str, object], _dtypes: Sequence[str]) -> str | None:
    """OpenVINO 2026.4 ignores the attribute."""
    return "cubic weights without those outside of the image" if attrs.get("exclude_outside") else None


def _recurrence(attrs: Mapping[str, object], _dtypes: Sequence[str]) -> str | None:
    others = {*expect(list, attrs["activations"])} - {"Relu", "Sigmoid", "Tanh"}
    return f"recurrent layers with the activation {min(others)}" if others else None


_RESTRICTIONS: Mapping[str, Restriction] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrence),
    "Cast": _cast,
    "Pad": _padding,
    "Resize": _resize,
}

DIALECT = Dialect(
    target=TARGET,
    opset=20,
    dtypes=_ALL | {"int64"},
    kernels=_KERNELS,
    restrictions=_RESTRICTIONS,
    missing=frozenset(("OneHot", "TopK")),
    wider=_WIDER,
    wide_truth=frozenset(("ArgMax", "ArgMin", "Max", "Min")),
    narrowed={"int64": "int32"},
    reshapes_permutations=True,
    fails_without_pixels=frozenset(("Conv", "ConvTranspose")),
    ignores_of_recurrences=frozenset(("has_lengths", "has_peepholes", "is_coupled")),
)
"""The ONNX dialect that OpenVINO 2026 supports on CPUs."""
