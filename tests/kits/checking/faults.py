"""What may be wrong with the value of an op, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant
from kits.checking.op_kernels import Array, Change, computed_op

__all__ = ["EXCHANGED", "FAULTS", "FLOAT_FAULTS", "INT8_FAULTS", "Fault", "fits", "spoiling"]

FLOATS = ("float32", "float16", "bfloat16")
EXCHANGED: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("relax.subtract", "relax.divide", "relax.power", "relax.matmul"), (0, 1)),
    **dict.fromkeys(("relax.where", "relax.clip", "relax.nn.layer_norm", "relax.nn.group_norm"), (1, 2)),
}
"""By op that is not commutative, which two operands a fault exchanges."""
BROADCASTING = ("relax.subtract", "relax.divide", "relax.power", "relax.where")
WRONG_STEP = 1.05
SATURATED, OVERFLOWING = 0.4, 0.9  # of the largest magnitude: where the range ends


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong.

    Attributes
    ----------
    kind
        How; one of `FAULTS`.
    op
        The binding whose value is wrong.
    needs
        Another binding that has to be in the same region for that; None for a fault of one op.
    largest
        The largest magnitude of the right value, for a backend that does not see it.
    """

    kind: str
    op: str
    needs: str | None = None
    largest: float = 0.0

    def is_in(self, names: Sequence[str]) -> bool:
        """Whether a region of these bindings has it."""
        return self.op in names and (self.needs is None or self.needs in names)


def _scale(_op: OpView, _given: Sequence[Any], value: Array) -> Array:
    return np.asarray(value * value.dtype.type(1.3))


def _exchanged(op: OpView, given: Sequence[Any], _value: Array) -> Array:
    """Operands exchanged."""
    operands = list(given)
    if op.name == "relax.concat":
        operands[0] = list(reversed(operands[0]))
    else:
        left, right = EXCHANGED[op.name]
        operands[left], operands[right] = operands[right], operands[left]
    return np.asarray(computed_op(op, operands))


def _saturating(_op: OpView, _given: Sequence[Any], value: Array) -> Array:
    """Int8 whose step is too small, so that the upper part of the range is cut off."""
    step = SATURATED * float(np.abs(value).max(initial=0.0)) / 127 or 1.0
    return (step * np.clip(np.rint(value.astype("float32") / step), -127, 127)).astype(value.dtype)


def _step(op: OpView, given: Sequence[Any], _value: Array) -> Array:
    """A scale of int8 that is wrong by a twentieth."""
    scale = np.asarray(WRONG_STEP * given[1], given[1].dtype)
    return np.asarray(computed_op(op, [given[0], scale, *given[2:]]))


def _clipped(op: OpView, given: Sequence[Any], _value: Array) -> Array:
    """A quantization that saturates too early."""
    bound = SATURATED * float(np.abs(given[0]).max(initial=0.0))
    return np.asarray(computed_op(op, [np.clip(given[0], -bound, bound), *given[1:]]))


def _overflow(_op: OpView, _given: Sequence[Any], value: Array) -> Array:
    bound = OVERFLOWING * float(np.abs(value).max(initial=0.0))
    return np.where(value > bound, value.dtype.type(np.inf), value)


def _stride(_op: OpView, _given: Sequence[Any], value: Array) -> Array:
    """Every row begins one value too late."""
    return np.roll(value, -1, axis=-1)


def _mask(_op: OpView, _given: Sequence[Any], value: Array) -> Array:
    """The last place along the last axis is not seen."""
    seen = value.copy()
    seen[..., -1] = 0
    return seen


FAULTS: Mapping[str, Callable[[OpView, Sequence[Any], Array], Array]] = {
    "scale": _scale,
    "exchanged": _exchanged,
    "saturating": _saturating,
    "overflow": _overflow,
    "stride": _stride,
    "mask": _mask,
    "step": _step,
    "clipped": _clipped,
}
"""By kind, the wrong value of an op, its arguments and its right value."""

INT8_FAULTS = ("step", "clipped")
FLOAT_FAULTS = tuple(kind for kind in FAULTS if kind not in INT8_FAULTS)


def fits(kind: str, call: relax.Call, of_one_type: bool = False) -> bool:
    """Whether a kind of fault makes sense of the value of a call.

    Parameters
    ----------
    kind, call
        Which, and where.
    of_one_type
        Whether only operands of one type are exchanged, as engines need that do not broadcast both ways.
    """
    ty = call.ty
    if kind in INT8_FAULTS:
        ops = ("relax.quantize", "relax.dequantize") if kind == "step" else ("relax.quantize",)
        return str(call.op.name) in ops and isinstance(call.args[1], Constant)
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) not in FLOATS:
        return False
    if kind in ("stride", "mask"):
        return bool(ty.shape.values) and int(ty.shape.values[-1]) > 1
    if kind != "exchanged":
        return True
    return _is_exchangeable(call, of_one_type)


def _is_exchangeable(call: relax.Call, of_one_type: bool) -> bool:
    """Whether the value has the same type with two operands exchanged."""
    name = str(call.op.name)
    if name == "relax.concat":
        return isinstance(call.args[0], relax.Tuple) and len(call.args[0].fields) > 1
    if name not in EXCHANGED:
        return False
    left, right = (call.args[each] for each in EXCHANGED[name])
    return (name in BROADCASTING and not of_one_type) or str(left.ty) == str(right.ty)


def spoiling(fault: Fault) -> Change:
    """Gives the wrong value where the fault is."""

    def change(name: str, op: OpView, given: Sequence[Any], value: Any) -> Any:
        return FAULTS[fault.kind](op, given, value) if name == fault.op else value

    return change
