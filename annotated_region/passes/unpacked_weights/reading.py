"""Evaluates the constant ops that make a float weight of packed integers, and keeps its scales apart.

GPTQ, AWQ and MLC store several integers in a word, each in an order of its own, and exporters write the
unpacking in ops of their choice::

    words  = bitwise_and(right_shift(expand_dims(packed, 1), [[0], [4], ..., [28]]), 15)
    weight = reshape(multiply(subtract(astype(words), zeros), scales), (rows, columns))

A pattern for each would be long and never complete. The ops are evaluated instead, with numpy, on arrays and
on `Scaled` tensors:

1.  Shifts and masks compute integers from integers.
2.  A cast of integers to floats begins a `Scaled` tensor, as does a difference of integers.
3.  Ops that move, select or repeat elements act on each part of it.
4.  A difference gives it zero points, and a product scales.

Anything else is evaluated as in constant folding, or declined. So is a ``call_tir``, which
MLC's compiler makes of its ops: running it would tell what it computes, but preparation runs no code of a
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.passes.preparation.constant_call import ConstantCall
from annotated_region.passes.preparation.constant_evaluation import EVALUATORS
from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import integers_of, static_shape
from annotated_region.passes.unpacked_weights.scaled import Scaled, is_float
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["read_weight"]

Value: TypeAlias = "np.ndarray | Scaled | int | float | tuple[Value, ...]"

BITS = frozenset(["relax.right_shift", "relax.left_shift", "relax.bitwise_and"])
MOVES = frozenset(
    f"relax.{name}"
    for name in (
        "reshape",
        "flatten",
        "expand_dims",
        "squeeze",
        "broadcast_to",
        "permute_dims",
        "strided_slice",
        "concat",
        "stack",
        "repeat",
        "tile",
        "take",
        "index_tensor",
        "flip",
    )
)


def read_weight(weight: relax.Expr, editor: Editor) -> Scaled:
    """The parts of a weight.

    Raises
    ------
    Declined
        The weight is not constant, nothing in it is unpacked, or an op is none of those above.
    """
    require(_unpacks(weight, editor), "no integers are unpacked")
    found = _WeightReader(editor).value(weight)
    if not isinstance(found, Scaled) or not is_float(found.dtype):
        raise Declined("the weight is not a float tensor of integers and scales")
    return found


def _unpacks(weight: relax.Expr, editor: Editor) -> bool:
    """Whether a weight depends on constants only, and some op takes integers apart.

    A ``dequantize`` is in the form that targets know, or belongs to a model that computes in int8.
    """
    found, seen, left = False, ExprSet(), [weight]
    while left:
        value = editor.value_of(left.pop())
        if value in seen or editor.is_constant(value):
            continue
        seen.add(value)
        if isinstance(value, relax.Tuple):
            left.extend(value.fields)
            continue
        if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
            return False
        name = value.op.name
        if name == "relax.dequantize" or name not in EVALUATORS:
            return False
        found = found or name in BITS
        left.extend(_tensors_of(value))
    return found


def _tensors_of(call: relax.Call) -> Iterator[relax.Expr]:
    """The arguments that are tensors, or tuples of them."""
    for argument in call.args:
        is_tuple = isinstance(argument, relax.Tuple) and not _are_numbers(argument)
        if is_tuple or isinstance(argument, relax.Var | Constant | relax.Call):
            yield argument


def _are_numbers(fields: relax.Tuple) -> bool:
    return all(isinstance(field, tvm.tirx.IntImm | tvm.tirx.FloatImm) for field in fields.fields)


class _WeightReader:
    """Evaluates the ops of one weight; each once."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.known: ExprMap[Value] = ExprMap()

    def value(self, expr: relax.Expr) -> Value:
        value = self.editor.value_of(expr)
        if value not in self.known:
            self.known[value] = self._computed(value)
        return self.known[value]

    def _computed(self, expr: relax.Expr) -> Value:
        array = self.editor.constant(expr)
        if array is not None:
            return array
        if isinstance(expr, relax.Tuple):
            return tuple(map(self.value, expr.fields))
        if isinstance(expr, relax.ShapeExpr):
            shape = integers_of(expr)
            require(shape is not None, "a shape is symbolic")
            return shape or ()
        if isinstance(expr, tvm.tirx.IntImm | tvm.tirx.FloatImm):
            return expr.value
        return self._called(expr)

    def _called(self, expr: relax.Expr) -> np.ndarray | Scaled:
        view = OpView.of(expr) if isinstance(expr, relax.Call) else None
        if view is None:
            raise Declined("a part of the weight is not constant")
        shape = static_shape(view.out_type)
        if shape is None:
            raise Declined("a part of the weight has a symbolic shape")
        arguments, dtype = tuple(map(self.value, view.args)), np.dtype(str(view.out_tensor.dtype))
        return _evaluated(view.name, ConstantCall(arguments, view.attrs, shape, dtype))


def _evaluated(name: str, call: ConstantCall) -> np.ndarray | Scaled:
    if name in CASES and (found := CASES[name](call)) is not None:
        return found
    if name in MOVES and any(map(_is_scaled, call.args)):
        return _moved(name, call)
    plain = ConstantCall(tuple(map(_plain, call.args)), call.attrs, call.shape, call.dtype)
    return _folded(name, plain)


def _folded(name: str, call: ConstantCall) -> np.ndarray:
    result = EVALUATORS[name](call)
    if result is None or result.shape != call.shape:
        raise Declined(f"{name} of a part of the weight is not evaluated")
    return result.astype(call.dtype, copy=False)


def _moved(name: str, call: ConstantCall) -> Scaled:
    """Case 3; several tensors, as in a concatenation, have the same parts."""
    first, *others = call.args
    fields = first if isinstance(first, tuple) else (first,)
    scaled = [field for field in fields if isinstance(field, Scaled)]
    require(len(scaled) == len(fields) and not any(map(_is_scaled, others)), f"{name} has other operands")
    whole = scaled[0]

    def move(part: str) -> np.ndarray | None:
        arrays = [getattr(each, part) for each in scaled]
        if all(array is None for array in arrays):
            return None
        require(all(array is not None for array in arrays), "only some of the integers are scaled")
        given = tuple(arrays) if isinstance(first, tuple) else arrays[0]
        return _folded(name, ConstantCall((given, *others), call.attrs, call.shape, arrays[0].dtype))

    words = move("words")
    assert words is not None
    return Scaled(words, move("zeros"), move("scales"), whole.dtype)


def _cast(call: ConstantCall) -> np.ndarray | Scaled | None:
    """Cases 2 and, of what is scaled already, a change of the float type."""
    (given,) = call.args
    if isinstance(given, Scaled):
        require(is_float(call.dtype), "what is scaled becomes an integer")
        return Scaled(given.words, given.zeros, given.scales, call.dtype)
    if given.dtype.kind in "iu" and is_float(call.dtype):
        return Scaled.of(given, call.dtype)
    return None


def _difference(call: ConstantCall) -> Scaled | None:
    """Cases 2 and 4."""
    left, right = call.args[0], _array(call.args[1])
    if isinstance(left, Scaled):
        return None if left.is_changed else left.shifted(right, call.shape)
    if call.dtype.kind not in "iu":
        return None
    exact = left.astype(np.int64) - right.astype(np.int64)
    require(np.array_equal(exact, exact.astype(call.dtype)), "a difference of integers overflows")
    return Scaled.of(left, call.dtype).shifted(right, call.shape)


def _sum(call: ConstantCall) -> Scaled | None:
    """Case 4, of a negative zero point."""
    left, right = call.args
    if not isinstance(left, Scaled) or not is_float(call.dtype) or left.is_changed:
        return None
    return left.shifted(-_array(right), call.shape)


def _product(call: ConstantCall) -> Scaled | None:
    """Case 4, with the scales on either side."""
    left, right = call.args
    if not is_float(call.dtype) or _is_scaled(left) == _is_scaled(right):
        return None
    numbers, scales = (left, right) if isinstance(left, Scaled) else (right, left)
    return numbers.multiplied(scales, call.shape)


def _bits(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[ConstantCall], np.ndarray]:
    """Case 1; unlike in folding, also of bytes, and of negative integers, whose sign LLVM's shift keeps."""

    def evaluate(call: ConstantCall) -> np.ndarray:
        left, right = (_array(each) for each in call.args)
        require(left.dtype.kind in "iu" and left.dtype == right.dtype, "bits of several types are joined")
        if function is not np.bitwise_and:
            bits = 8 * left.dtype.itemsize
            require(bool(((right >= 0) & (right < bits)).all()), "a shift exceeds the bits")
        return np.asarray(function(left, right))

    return evaluate


CASES: dict[str, Callable[[ConstantCall], np.ndarray | Scaled | None]] = {
    "relax.astype": _cast,
    "relax.subtract": _difference,
    "relax.add": _sum,
    "relax.multiply": _product,
    "relax.right_shift": _bits(np.right_shift),
    "relax.left_shift": _bits(np.left_shift),
    "relax.bitwise_and": _bits(np.bitwise_and),
}


def _is_scaled(value: Value) -> bool:
    return isinstance(value, Scaled) or (isinstance(value, tuple) and any(map(_is_scaled, value)))


def _plain(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.value() if isinstance(value, Scaled) else value


def _array(value: Value) -> np.ndarray:
    plain = _plain(value)
    if not isinstance(plain, np.ndarray):
        raise Declined("an operand is not a tensor")
    return plain
