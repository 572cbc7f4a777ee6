"""Finds small shapes with which a function is still wrong.

Equal extents of the arguments are replaced together, because ops require them to be equal: 768 in an input,
in a weight and in an explicit shape all become 96. Each extent is tried with 1, 2, 4 and so on, after the
idea of delta debugging (Zeller and Hildebrandt 2002); shapes that an op rejects, or that give right results,
are skipped. Arrays are truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from tvm import relax, tirx

from annotated_region.checking.failure import Failure
from annotated_region.checking.fault_case import FaultCase, answered
from annotated_region.checking.program import MAIN
from annotated_region.expr_map import ExprMap
from annotated_region.tvm_adapter.types import expect, fixed_extents, tensor_type

__all__ = ["with_smallest_shapes"]

_MOST_TRIES = 40  # builds on the host, and as many on the target
# The exceptions that TVM raises if an op rejects its operand shapes.
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)


def with_smallest_shapes(case: FaultCase, failure: Failure) -> FaultCase:
    """A case that is still wrong, with each extent minimized in turn.

    At most 40 candidates are built. A case that is not wrong when run again is returned unchanged.
    """
    again = answered(case, failure)
    if again is None:
        return case
    tries = 1
    for extent in _extents(again):
        for smaller in _candidates(extent):
            if tries == _MOST_TRIES:
                return again
            made = _resized(again, extent, smaller)
            tries += made is not None
            found = None if made is None else answered(made, failure)
            if found is not None:
                again = found
                break
    return again


def _extents(case: FaultCase) -> list[int]:
    """The distinct extents of the arguments, largest first."""
    arrays = (*case.inputs.values(), *case.constants.values())
    return sorted({extent for array in arrays for extent in array.shape if extent > 1}, reverse=True)


def _candidates(extent: int) -> Iterator[int]:
    smaller = 1
    while smaller < extent:
        yield smaller
        smaller *= 2


def _resized(case: FaultCase, extent: int, smaller: int) -> FaultCase | None:
    """The case with an extent replaced by a smaller one; None if an op rejects the shapes."""
    params = [relax.Var(param.name, _resized_type(param, extent, smaller)) for param in case.func.params]
    renamed: ExprMap[relax.Expr] = ExprMap(zip(case.func.params, params, strict=True))

    def replaced(expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Var):
            return renamed.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([replaced(field) for field in expr.fields])
        if isinstance(expr, relax.ShapeExpr):
            return relax.ShapeExpr([replaced(each) for each in expr.values])
        if isinstance(expr, tirx.IntImm) and int(expr) == extent:
            return tirx.IntImm(str(expr.ty), smaller)
        return expr

    cut = {name: _cut(array, extent, smaller) for name, array in {**case.inputs, **case.constants}.items()}
    if any(_is_beyond(array, extent, smaller) for array in cut.values()):
        return None
    try:
        func = _rebuilt(case.func, params, renamed, replaced)
    except _REFUSALS:
        return None
    return replace(
        case,
        func=func,
        inputs={name: cut[name] for name in case.inputs},
        constants={name: cut[name] for name in case.constants},
    )


def _resized_type(param: relax.Var, extent: int, smaller: int) -> relax.TensorType:
    shape = [smaller if each == extent else each for each in fixed_extents(param)]
    return relax.TensorType(shape, str(tensor_type(param).dtype))


def _cut(array: np.ndarray, extent: int, smaller: int) -> np.ndarray:
    """The array, truncated along each axis with that extent."""
    parts = tuple(slice(smaller) if each == extent else slice(None) for each in array.shape)
    return array[parts].copy()


def _is_beyond(array: np.ndarray, extent: int, smaller: int) -> bool:
    """Whether integers may be indices into an axis that are out of bounds after truncation."""
    return array.dtype.kind in "iu" and bool(((array >= smaller) & (array < extent)).any())


def _rebuilt(
    func: relax.Function,
    params: list[relax.Var],
    renamed: ExprMap[relax.Expr],
    replaced: Callable[[relax.Expr], relax.Expr],
) -> relax.Function:
    """The function over new parameters, with the types of its bindings inferred again."""
    builder = relax.BlockBuilder()
    with builder.function(MAIN, params):
        with builder.dataflow():
            for binding in (binding for block in func.body.blocks for binding in block.bindings):
                emit = builder.emit if isinstance(binding.var, relax.DataflowVar) else builder.emit_output
                renamed[binding.var] = emit(_recast(binding.value, replaced), binding.var.name)
        builder.emit_func_output(replaced(func.body.body))
    return expect(relax.Function, builder.get()[MAIN])


def _recast(value: relax.Expr, replaced: Callable[[relax.Expr], relax.Expr]) -> relax.Expr:
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(replaced(value.tuple_value), value.index)
    if not isinstance(value, relax.Call):
        return replaced(value)
    return relax.Call(value.op, [replaced(each) for each in value.args], value.attrs, value.ty_args)
