"""Computes integer and boolean tensors directly from element indices, if that takes fewer operations.

Exporters write masks and positions as PyTorch computes them: a causal mask of transformers takes 30
operations on positions, counts the packed sequences (one), and indexes with ranges. With symbolic lengths
constant folding does not apply; but each element is a function of its indices, ``j <= i``, which takes three
operations to compute::

    lv40[b, 0, i, j] = (count[b, i] == count[b, j]) & (place[b, j] <= place[b, i])
                     = (0 == 0) & (j <= i) = j <= i

1.  An integer or boolean tensor is replaced by the expression of its elements, derived by `element_reader`
    and emitted by `element_writer`, if that has a lower weight (see `weight`).
2.  A ``take`` that reads the same row of a constant table for every index is the broadcast of that row.
3.  ``where`` with a uniform condition is one of its operands.

Proof of case 1: the expression equals the element at every index of the tensor, by induction over the
operations read; each rule states the semantics of its operation. The shape is that of the type. The rewrite
may remove a run-time error for operands whose shapes do not match; their result is undefined anyway.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import tvm_ffi
from tvm import relax, tirx

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.elements.computing_rules import COMPUTING
from annotated_region.passes.preparation.elements.element_reader import (
    WIDTHS,
    ElementReader,
    is_bounded,
    occurrences,
)
from annotated_region.passes.preparation.elements.element_writer import (
    ElementWriter,
    least_weight,
    weight_of,
)
from annotated_region.passes.preparation.elements.moving_rules import MOVING
from annotated_region.passes.preparation.tensors import constant_of, dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["REWRITES", "RULES"]

RULES = {**MOVING, **COMPUTING}
SOURCES = frozenset(
    [f"relax.{name}" for name in ("arange", "index_tensor", "tril", "triu", "flip")]
    + [f"relax.{name}{like}" for name in ("full", "zeros", "ones") for like in ("", "_like")]
)
"""Ops that create or index by positions; expressions without any of them are not worth rewriting."""


def compute_elements(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 1."""
    dtype = dtype_of(view.out_type)
    reader = _reader(view.call, editor) if dtype == "bool" or dtype in WIDTHS else None
    if reader is None or dtype is None or any(map(is_bounded, reader.extents)):
        return None
    found = reader.computed(view, reader.places)
    if found is None or SOURCES.isdisjoint(reader.names) or _loads_more(found, reader):
        return None
    written = ElementWriter(reader).whole_tensor(found, dtype)
    if written is None or weight_of(written) >= sum(map(least_weight, reader.names)):
        return None
    return _in_bindings(written, editor)


def _reader(expr: relax.Expr, editor: Editor) -> ElementReader | None:
    shape = expr.ty.shape if isinstance(expr.ty, relax.TensorType) else None
    return ElementReader(editor, shape.values, RULES) if isinstance(shape, relax.ShapeExpr) else None


def _loads_more(expr: PrimExpr, reader: ElementReader) -> bool:
    """Whether a tensor is loaded more often than before: its weight is unknown, so the total may rise."""
    read = Counter(load.unknown.name for load in reader.hits)
    needed = {variable.name: times for variable, times in occurrences(expr).items()}
    return any(needed.get(load.unknown.name, 0) > read[load.unknown.name] for load in reader.loads)


def _in_bindings(expr: relax.Expr, editor: Editor) -> relax.Expr:
    """`expr` with its nested calls bound to variables."""
    if not isinstance(expr, relax.Call):
        return expr
    args = [
        editor.emit(_in_bindings(arg, editor), "place") if isinstance(arg, relax.Call) else arg
        for arg in expr.args
    ]
    return relax.Call(expr.op, args, expr.attrs)


def take_one_row(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 2: all indices are the same number."""
    table, indices = view.args
    array = editor.constant(table)
    reader = _reader(indices, editor)
    shape = view.out_tensor.shape
    axis = int(view.attrs["axis"] or 0)
    if (
        array is None
        or reader is None
        or array.ndim == 0
        or axis != 0
        or not isinstance(shape, relax.ShapeExpr)
    ):
        return None
    place = reader.element(indices, reader.places)
    if not isinstance(place, tirx.IntImm) or not 0 <= place.value < array.shape[0]:
        return None
    if view.attrs["axis"] is None and array.ndim > 1:
        return None
    return relax.op.broadcast_to(constant_of(np.asarray(array[place.value])), shape)


def choose_operand(view: OpView, editor: Editor) -> relax.Expr | None:
    """Case 3."""
    condition, one, other = view.args
    reader = _reader(condition, editor)
    chosen = None if reader is None else reader.element(condition, reader.places)
    shape = view.out_tensor.shape
    if not isinstance(chosen, tirx.IntImm) or not isinstance(shape, relax.ShapeExpr):
        return None
    operand = one if chosen.value else other
    return operand if _has_type(operand, view) else relax.op.broadcast_to(operand, shape)


def _has_type(operand: relax.Expr, view: OpView) -> bool:
    return bool(tvm_ffi.structural_equal(operand.ty, view.out_type))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.take",), take_one_row),
    (("relax.where",), choose_operand),
    (tuple(RULES), compute_elements),
]
