"""The rules of TensorRT: it claims every op that is emitted as operators of its parser's support matrix.

If this TVM was built with its own TensorRT code generator, TVM's pattern table is registered instead, because
that generator requires composites with the names of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tvm.relax.backend.contrib.tensorrt  # fills TVM's pattern registry
from tvm import relax
from tvm.relax.backend.pattern_registry import FusionPattern, get_patterns_with_prefix
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.onnx_emitter import (
    Dialect,
    converted_ops,
    register_recurrent_layers,
    register_shape_pattern,
    trial,
)
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern, register_rule
from annotated_region.tvm_adapter.types import expect

__all__ = ["DIALECT", "TARGET", "register_patterns", "register_rules"]

TARGET = "tensorrt"

_FLOATS = frozenset(("float32", "float16", "bfloat16"))
_NUMBERS = _FLOATS | {"int32", "int64"}
_BOOL = frozenset(("bool",))
_BYTES = frozenset(("int8",))

# The support matrix of the ONNX parser of TensorRT 10 and later; operators that move data support all types.
_KERNELS = {
    **dict.fromkeys(
        (
            "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "BatchNormalization", "Ceil",
            "Clip", "Conv", "ConvTranspose", "Cos", "Cosh", "CumSum", "Einsum", "Erf", "Exp", "Floor", "Gelu",
            "GlobalAveragePool", "InstanceNormalization", "IsInf", "LayerNormalization", "LeakyRelu", "Log",
            "LogSoftmax", "MatMul", "MaxPool", "PRelu", "Pow", "Reciprocal", "Resize", "Round", "Selu",
            "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Sqrt", "Tan", "Tanh",
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        (
            "Abs", "Add", "ArgMax", "ArgMin", "Div", "Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less",
            "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Pad", "Range", "ReduceMax", "ReduceMean",
            "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "ScatterElements", "ScatterND", "Sign", "Sub",
            "TopK",
        ),
        _NUMBERS,
    ),
    **dict.fromkeys(("And", "Not", "Or", "Xor"), _BOOL),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), frozenset(("float32",))),
    "DequantizeLinear": _BYTES,
    "QuantizeLinear": _FLOATS,
}  # fmt: skip


def _window(attrs: Mapping[str, object], _dtypes: Sequence[str]) -> str | None:
    if len(expect(list, attrs["kernel_shape"])) not in (2, 3):
        return "pooling is over two or three axes"
    dilated = any(step != 1 for step in expect(list, attrs.get("dilations", [])))
    return "the window is dilated" if dilated else None


def _no_reduction(attrs: Mapping[str, object], _dtypes: Sequence[str]) -> str | None:
    return f"the reduction {attrs['reduction']}" if attrs.get("reduction") else None


DIALECT = Dialect(
    target=TARGET,
    opset=20,
    dtypes=_NUMBERS | _BOOL | _BYTES,
    kernels=_KERNELS,
    restrictions={"MaxPool": _window, "AveragePool": _window, "ScatterND": _no_reduction},
    max_rank=8,
    max_elements=(1 << 31) - 1,
    ignores_of_recurrences=frozenset(("is_coupled",)),
)
"""The ONNX dialect that TensorRT 10 and 11 parse. Networks have an explicit batch, so no axis is special."""


_QUANTIZATION = ("relax.quantize", "relax.dequantize")
_MOVING = (
    *("relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims", "relax.permute_dims"),
    *("relax.concat", "relax.strided_slice"),
)


def _rule(op: OpView) -> bool | str:
    reason = _symmetry(op) if op.name in _QUANTIZATION else _bytes(op)
    return reason or trial(op, DIALECT) or True


def _symmetry(op: OpView) -> str | None:
    """Why a quantization is not supported: TensorRT's have constant scales, and zero points of zero."""
    scale, zero = op.constant(1), op.constant(2)
    if scale is None or not (scale > 0).all():
        return "tensorrt requires constant, positive scales"
    if zero is None or zero.any():
        return "tensorrt requires zero points of zero"
    if op.name == "relax.quantize" and max(scale.size, zero.size) != 1:
        return "tensorrt supports several scales only for weights"
    return None


def _bytes(op: OpView) -> str | None:
    """Why an op on int8 is declined: TensorRT only moves int8 data between quantization and products."""
    types = [str(each.dtype) for each in (*op.arg_types, op.out_type) if isinstance(each, relax.TensorType)]
    return None if op.name in _MOVING or "int8" not in types else "tensorrt only moves int8 data"


def register_rules() -> None:
    """Register a rule for every op with a converter, and the composites of two ops."""
    for name in converted_ops():
        register_rule(TARGET, name)(_rule)
    register_shape_pattern(DIALECT)
    register_recurrent_layers(DIALECT)


def register_patterns() -> None:
    """Register TVM's pattern table; each pattern checks the data types before TVM's own check."""
    for fusion in get_patterns_with_prefix(TARGET):
        register_pattern(
            TARGET, fusion.name, fusion.pattern, _check_for(fusion), dict(fusion.annotation_patterns.items())
        )


def _check_for(fusion: FusionPattern) -> Callable[[PatternCheckContext], bool | str]:
    def check(context: PatternCheckContext) -> bool | str:
        for dtype in _dtypes(context.matched_expr.ty):
            if dtype not in DIALECT.dtypes:
                return f"data type {dtype} is none of {', '.join(sorted(DIALECT.dtypes))}"
        return bool(fusion.check(context)) if fusion.check is not None else True

    return check


def _dtypes(ty: tvm.ir.Type) -> list[str]:
    if isinstance(ty, tvm.ir.TupleType):
        return [dtype for part in ty.fields for dtype in _dtypes(part)]
    return [str(ty.dtype)] if isinstance(ty, relax.TensorType) and ty.dtype is not None else []
