"""The tolerance of a result, derived from the coarsest arithmetic used and the number of ops.

Two correct engines differ, because they sum in different orders and round at different points. Each rounding
has an error of at most half a unit in the last place, and roundings of different ops are independent, so
their sum grows with the square root of the number of ops (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., 2.8). In int8 only quantizations round: products and sums of 8-bit values are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.costs.model import HOST
from annotated_region.targets.backend import backend_of

__all__ = ["Tolerance", "quantizations", "tolerance_for"]

# The allowed error per op, relative to the largest magnitude of the reference. float32 has more than a unit
# in the last place, because products sum thousands of terms in different orders.
_UNITS: Mapping[str, tuple[float, str]] = {
    "int8": (1.0 / 127, "one step of 127 a quantization"),
    "float8": (2.0**-3, "two units of a significand of 3 or 4 bits an op"),
    "bfloat16": (2.0**-8, "two units of a significand of 8 bits an op"),
    "float16": (2.0**-10, "two units of a significand of 11 bits an op"),
    "tf32": (2.0**-10, "two units of a significand of 11 bits an op"),
    "float32": (2e-5, "sums of thousands of terms in another order"),
    "float64": (1e-12, "sums of thousands of terms in another order"),
}
_OF_PRECISION = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16", "tf32": "tf32", "int8": "int8"}
_QUANTIZE, _DEQUANTIZE = "relax.quantize", "relax.dequantize"
_ON_INTEGERS = (
    *(_QUANTIZE, _DEQUANTIZE, "relax.matmul", "relax.add", "relax.subtract", "relax.multiply"),
    *("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d", "relax.nn.relu", "relax.clip"),
    *("relax.maximum", "relax.minimum", "relax.nn.max_pool2d", "relax.concat", "relax.split"),
    *("relax.reshape", "relax.permute_dims", "relax.expand_dims", "relax.squeeze", "relax.strided_slice"),
)
"""Ops that are exact between 8-bit values, except for the scaling of their sum in float."""
_STEPS_OF_TABLES = 1.0
"""The allowed error of other functions, which engines may compute by 8-bit tables; also of 16-bit floats."""
_STEPS = 255


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed error of a result.

    Attributes
    ----------
    rtol
        Relative to the magnitude of each value of the reference.
    atol
        Absolute, for all values.
    of_largest
        Relative to the largest magnitude of the reference.
    reason
        The derivation of the tolerance.
    steps
        The allowed error of an 8-bit result before rounding, in steps; None to skip that comparison.
    in_int8
        Whether the tolerance is derived from sums in int8, which may round to the next step.
    """

    rtol: float
    atol: float
    of_largest: float
    reason: str
    steps: float | None = None
    in_int8: bool = False

    def allowed(self, largest: float) -> float:
        """The absolute tolerance, for a reference with the given largest magnitude."""
        return self.atol + self.of_largest * (largest if largest > 0 else 1.0)


def tolerance_for(
    func: relax.Function,
    target: str,
    options: Mapping[str, Mapping[str, object]],
    rtol: float | None = None,
    atol: float | None = None,
) -> Tolerance:
    """The tolerance for the floating-point results of a region.

    Parameters
    ----------
    func
        The computation of the region, as straight-line code.
    target
        The target of the region; the host for a program without regions.
    options
        By target, the options of its code generator; those that set the precision matter.
    rtol, atol
        The user's tolerances, as in numpy's `allclose`; if only one is given, the other is 0.
    """
    if rtol is not None or atol is not None:
        return Tolerance(rtol or 0.0, atol or 0.0, 0.0, "asked for")
    quantized = _calls(func, _QUANTIZE, _DEQUANTIZE)
    types = [*_types_in(func), *_types_by_option(target, options), *(["int8"] if quantized else [])]
    arithmetic = _coarsest(types)
    unit, why = _UNITS[arithmetic]
    count, what = sum(len(block.bindings) for block in func.body.blocks), "ops"
    if quantized:
        count, what = quantizations(func), "of them"
    share = unit * (1.0 + math.sqrt(count))
    reason = f"{arithmetic}: {why}, grown by the root of {count} {what}"
    steps = _steps(func, types) if quantized else None
    return Tolerance(share, 0.0, share, reason, steps, in_int8=arithmetic == "int8")


def _steps(func: relax.Function, types: Sequence[str]) -> float:
    """The allowed error of an 8-bit result before rounding, in steps: float32 rounding errors, or more."""
    is_rough = any(each in types for each in ("float8", "bfloat16", "float16", "tf32"))
    ops = _calls(func)
    if is_rough or _calls(func, *_ON_INTEGERS) < ops:
        return _STEPS_OF_TABLES
    return _STEPS * _UNITS["float32"][0] * (1.0 + math.sqrt(ops))


def quantizations(func: relax.Function) -> int:
    """The number of ops in straight-line code that round to 8 bits."""
    return _calls(func, _QUANTIZE)


def _calls(func: relax.Function, *names: str) -> int:
    """The number of calls to ops with these names in a function, or of all calls if no names are given."""
    values = (binding.value for block in func.body.blocks for binding in block.bindings)
    called = [_op_name(value) for value in values if isinstance(value, relax.Call)]
    return sum(name in names or not names for name in called)


def _coarsest(found: Sequence[str]) -> str:
    return next((name for name in _UNITS if name in found), "float64" if found else "float32")


def _types_in(func: relax.Function) -> list[str]:
    """The arithmetic of each value of a function."""
    variables = [*func.params, *(binding.var for block in func.body.blocks for binding in block.bindings)]
    dtypes = [str(ty.dtype) for var in variables for ty in _tensors(var.ty)]
    return [_arithmetic(dtype) for dtype in dtypes]


def _tensors(ty: tvm.ir.Type) -> list[relax.TensorType]:
    if isinstance(ty, tvm.ir.TupleType):
        return [each for part in ty.fields for each in _tensors(part)]
    return [ty] if isinstance(ty, relax.TensorType) else []


def _arithmetic(dtype: str) -> str:
    return "float8" if dtype.startswith(("float8", "float6", "float4")) else dtype if "float" in dtype else ""


def _op_name(call: relax.Call) -> str:
    return str(call.op.name) if isinstance(call.op, tvm.ir.Op) else ""


def _types_by_option(target: str, options: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The arithmetic that options select: ``precision=bf16``, ``bf16_if_faster``, ``fp16=True``."""
    usual = {} if target == HOST else backend_of(target).codegen_options
    given = {**usual, **options.get(target, {})}
    said = [str(value) for name, value in given.items() if "precision" in name and isinstance(value, str)]
    said += [name for name, value in given.items() if value is True]
    return [
        arithmetic for text in said for word, arithmetic in _OF_PRECISION.items() if text.startswith(word)
    ]
