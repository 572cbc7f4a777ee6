"""Evaluates calls with only constant arguments, with numpy.

TVM's ``FoldConstant`` compiles and runs one function for every constant call: 12 to 20 s for ResNet-50.
Almost all of these calls move data (reshape, transpose, broadcast, cast) or perform one operation per element
that IEEE 754 rounds exactly, in numpy as in compiled code. Those are evaluated here in the dtype of the call,
so float16 and bfloat16 round as at run time. Functions that libraries approximate differently (exp, log,
tanh, ...) and float sums, whose order the compiler chooses, are evaluated in double precision and rounded
once. For example,

    lv1 = log(constant)                   # T5's relative positions, in logarithmic buckets
    lv2 = astype(lv1 * 2.885, "int64")

gives the integers that an accurate library gives, on every target. Not folded are casts and integer
divisions that C leaves undefined, minima and maxima of NaN, indices that are negative or out of bounds,
``dequantize`` of more than one number, which targets claim to compute in int8, and results that would inflate
the module (see `FREE_ELEMENTS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax

from annotated_region.passes.preparation.constant_call import ConstantCall
from annotated_region.passes.preparation.constant_evaluation import EVALUATORS
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import constant_of, integers_of, rounded_once, static_shape
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES", "fold_constants", "value_of_constants"]

FREE_ELEMENTS = 1 << 20  # a result may exceed the size of its arguments only up to this many elements
MOST_ELEMENTS = 1 << 25  # of values that are looked at, and not made part of the module

ConstantTensor: TypeAlias = Callable[[relax.Expr], np.ndarray | None]
"""The value of a constant tensor; None of other tensors."""


def fold_constants(view: OpView, editor: Editor) -> relax.Expr | None:
    """The constant that the call computes; None if some argument is not constant or the op is not exact."""
    call = _constant_call(view, editor, editor.constant)
    result = None if call is None or _grows_too_much(call) else _result(view, call)
    return None if result is None else constant_of(result)


def value_of_constants(expr: relax.Expr, editor: Editor) -> np.ndarray | None:
    """The value of an expression of constants, also if it is too large for a constant of the module.

    None if something in it is not constant or not exact, or its parts have more than `MOST_ELEMENTS` elements
    in all.
    """
    return _ConstantParts(editor, MOST_ELEMENTS).value(expr)


@dataclass(slots=True)
class _ConstantParts:
    """The values of parts of one expression, each computed once."""

    editor: Editor
    left: int  # of the elements
    known: dict[relax.Var, np.ndarray | None] = field(default_factory=dict)

    def value(self, expr: relax.Expr) -> np.ndarray | None:
        """The value of a part."""
        origin = self.editor.origin(expr)
        if not isinstance(origin, relax.Var):
            return self.editor.constant(origin)
        if origin not in self.known:
            self.known[origin] = self._computed(origin)
        return self.known[origin]

    def _computed(self, origin: relax.Var) -> np.ndarray | None:
        view = self.editor.view_of(origin)
        if view is None or view.name not in EVALUATORS:
            return None
        call = _constant_call(view, self.editor, self.value)
        self.left -= 0 if call is None else prod(call.shape)
        return None if call is None or self.left < 0 else _result(view, call)


def _result(view: OpView, call: ConstantCall) -> np.ndarray | None:
    with np.errstate(all="ignore"):  # overflow and 0/0 give the same values as at run time
        result = EVALUATORS[view.name](call)
    if result is None or result.shape != call.shape:
        return None
    return rounded_once(result, call.dtype)


def _constant_call(view: OpView, editor: Editor, held: ConstantTensor) -> ConstantCall | None:
    shape = static_shape(view.out_type)
    args = _known_all(view.args, editor, held)
    if shape is None or args is None or min(shape, default=0) < 0:
        return None
    return ConstantCall(args, view.attrs, shape, np.dtype(str(view.out_tensor.dtype)))


def _known_all(
    exprs: Iterable[relax.Expr], editor: Editor, held: ConstantTensor
) -> tuple[object, ...] | None:
    """The value of each expression, or None if one is not constant; large constants are not copied."""
    values = []
    for expr in exprs:
        value = _known(expr, editor, held)
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def _known(expr: relax.Expr, editor: Editor, held: ConstantTensor) -> object:
    match value := editor.value_of(expr):
        case relax.Tuple():
            return _known_all(value.fields, editor, held)
        case relax.ShapeExpr():
            return integers_of(value)
        case tvm.tirx.IntImm() | tvm.tirx.FloatImm():
            return value.value
        case _:
            return held(expr)


def _grows_too_much(call: ConstantCall) -> bool:
    """Whether the result is large, and larger than all its arguments together (zeros, an outer sum)."""
    size = prod(call.shape)
    return size > FREE_ELEMENTS and size > sum(_sizes(call.args))


def _sizes(values: Iterable[object]) -> Iterator[int]:
    for value in values:
        if isinstance(value, tuple):
            yield from _sizes(value)
        elif isinstance(value, np.ndarray):
            yield value.size


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(tuple(EVALUATORS), fold_constants)]
