"""How far a result may be from the reference: by the coarsest arithmetic on the way, and its length.

Two engines that are both right differ, because they add in another order and round at other places. Each
rounding is off by half a unit of the last place at most, and roundings of different ops are independent, so
their sum grows with the square root of the number of ops (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., 2.8). In int8 only what quantizes rounds: products and sums of 8-bit values are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.targets.backend import backend_of

__all__ = ["Tolerance", "quantizations", "tolerance_for"]

# Of the largest magnitude of the reference, what one op may be off. Products in float32 add thousands of
# terms in another order, which is why they get more than a unit of the last place.
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
_IN_WHOLE_NUMBERS = (
    *(_QUANTIZE, _DEQUANTIZE, "relax.matmul", "relax.add", "relax.subtract", "relax.multiply"),
    *("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d", "relax.nn.relu", "relax.clip"),
    *("relax.maximum", "relax.minimum", "relax.nn.max_pool2d", "relax.concat", "relax.split"),
    *("relax.reshape", "relax.permute_dims", "relax.expand_dims", "relax.squeeze", "relax.strided_slice"),
)
"""Ops that are exact between values of 8 bits, but for the one float that their sum is scaled by."""
_STEPS_OF_TABLES = 1.0
"""What other functions may be off, of which engines have tables of 8 bits; half types are as rough."""
_STEPS = 255


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be off.

    Attributes
    ----------
    rtol
        Of the magnitude of each value of the reference.
    atol
        The same for all values.
    of_largest
        Of the largest magnitude of the reference.
    reason
        Where that comes from.
    steps
        Of a step, how far a result of 8 bits may be off before it is rounded; None if that is not looked at.
    """

    rtol: float
    atol: float
    of_largest: float
    reason: str
    steps: float | None = None

    def allowed(self, largest: float) -> float:
        """The absolute part, for a reference whose largest magnitude is given."""
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
        What the region computes, as straight code.
    target
        Where it runs.
    options
        By target, the options of its code generator, whose precision counts.
    rtol, atol
        What the user asks for; as numpy's `allclose` has them, and 0 for the other if only one is given.
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
    return Tolerance(share, 0.0, share, reason, _steps(func, types) if quantized else None)


def _steps(func: relax.Function, types: Sequence[str]) -> float:
    """How far a result of 8 bits may be off before it is rounded: by roundings of float32, or more."""
    is_rough = any(each in types for each in ("float8", "bfloat16", "float16", "tf32"))
    ops = _calls(func)
    if is_rough or _calls(func, *_IN_WHOLE_NUMBERS) < ops:
        return _STEPS_OF_TABLES
    return _STEPS * _UNITS["float32"][0] * (1.0 + math.sqrt(ops))


def quantizations(func: relax.Function) -> int:
    """How many ops of a function, which is straight code, round to 8 bits."""
    return _calls(func, _QUANTIZE)


def _calls(func: relax.Function, *names: str) -> int:
    """How many ops of some names a function calls; of all names if there are none."""
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
    """The arithmetic that an option asks for: ``precision=bf16``, ``bf16_if_faster``, ``fp16=True``."""
    given = {**backend_of(target).codegen_options, **options.get(target, {})}
    said = [str(value) for name, value in given.items() if "precision" in name and isinstance(value, str)]
    said += [name for name, value in given.items() if value is True]
    return [
        arithmetic for text in said for word, arithmetic in _OF_PRECISION.items() if text.startswith(word)
    ]
