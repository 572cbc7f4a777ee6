"""What ONNX Runtime claims: every op that the emitter can say in operators it has a kernel for on CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from annotated_region.backends.onnx_emitter import Dialect, converted_ops, trial
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["DIALECT", "TARGET", "register_rules"]

TARGET = "onnxruntime"

# ONNX Runtime widens half precision itself where it has a kernel for single precision only.
_SINGLE = frozenset(("float16", "float32"))
_FLOATS = _SINGLE | {"float64"}
_NUMBERS = _FLOATS | {"int32", "int64"}

# Its documented CPU kernels (OperatorKernels.md), in so far as they take fewer types than the dialect has.
_KERNELS = {
    **dict.fromkeys(
        (
            "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Conv", "ConvTranspose", "Cosh",
            "Erf", "Gelu", "GlobalAveragePool", "InstanceNormalization", "LayerNormalization", "LeakyRelu",
            "PRelu", "Selu", "Sinh", "Softplus", "Tan", "Resize",
        ),
        _SINGLE,
    ),
    **dict.fromkeys(
        (
            "BatchNormalization", "Ceil", "Cos", "Exp", "Floor", "IsInf", "IsNaN", "Log", "LogSoftmax",
            "Reciprocal", "Round", "Sigmoid", "Sin", "Softmax", "Sqrt", "Tanh", "MaxPool", "ReduceMean",
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        (
            "Abs", "Add", "Clip", "CumSum", "Div", "Einsum", "Greater", "GreaterOrEqual", "Less",
            "LessOrEqual", "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Pow", "ReduceMax", "ReduceMin",
            "ReduceSum", "Sub", "TopK",
        ),
        _NUMBERS,
    ),
    "ArgMax": _SINGLE | {"int32"},
    "ArgMin": _SINGLE | {"int32"},
    "Equal": _NUMBERS | {"bool"},
    "OneHot": _SINGLE | {"int64"},
    "ReduceProd": _SINGLE | {"int32", "int64"},
    "Relu": _FLOATS | {"int32"},
    "Sign": _NUMBERS,
    "Trilu": _NUMBERS | {"bool"},
    "Where": _NUMBERS | {"uint8"},
}  # fmt: skip

# What scattering takes where it replaces, but not where it reduces; its table of kernels does not say so.
_UNREDUCED = {
    ("ScatterElements", "add"): ("float16",),
    ("ScatterElements", "mul"): ("float16",),
    ("ScatterElements", "max"): ("bool",),
    ("ScatterElements", "min"): ("bool",),
    ("ScatterND", "add"): ("float16",),
    ("ScatterND", "mul"): ("float16",),
    ("ScatterND", "max"): ("bool", "float16"),
    ("ScatterND", "min"): ("bool", "float16"),
}


def _reduction(operator: str, attrs: Mapping[str, object], dtypes: Sequence[str]) -> str | None:
    reduction = str(attrs.get("reduction"))
    unknown = [dtype for dtype in _UNREDUCED.get((operator, reduction), ()) if dtype in dtypes]
    return f"the reduction {reduction} of {unknown[0]}" if unknown else None


DIALECT = Dialect(
    target=TARGET,
    opset=20,
    dtypes=_NUMBERS | {"int8", "uint8", "bool"},
    kernels=_KERNELS,
    restrictions={name: partial(_reduction, name) for name in ("ScatterElements", "ScatterND")},
)
"""ONNX as ONNX Runtime 1.17 and later read it on a CPU."""


def _rule(op: OpView) -> bool | str:
    return trial(op, DIALECT) or True


def register_rules() -> None:
    """Register a rule for every op with a converter."""
    for name in converted_ops():
        register_rule(TARGET, name)(_rule)
