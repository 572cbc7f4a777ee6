"""Replaces the reduction of a ``stack`` by a chain of binary operations.

The importer translates ONNX ``Sum``, ``Mean``, ``Max`` and ``Min`` to the reduction of a stack::

    lv1 = stack((a, b, c), axis=0)                 lv1 = add(a, b)
    lv2 = sum(lv1, axis=[0])           becomes     lv2 = add(lv1, c)

which copies every operand and inserts two ops that few libraries support into each residual connection. The
chain adds in the same order as the reduction.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

_Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]

BINARY: dict[str, _Binary] = {
    "relax.sum": relax.op.add,
    "relax.mean": relax.op.add,
    "relax.prod": relax.op.multiply,
    "relax.max": relax.op.maximum,
    "relax.min": relax.op.minimum,
}


def unstack(view: OpView, editor: Editor) -> relax.Expr | None:
    """The chain for a reduction over the axis along which its argument was stacked.

    With ``keepdims`` the chain has another type than the reduction, so `Editor.attempt` rejects it.
    """
    parts = _stacked(view, editor)
    if not parts:
        return None
    chain = _chain(parts, BINARY[view.name], editor)
    if view.name != "relax.mean":
        return chain
    return relax.op.divide(editor.emit(chain, "sum"), relax.const(len(parts), dtype_of(view.out_type)))


def _stacked(view: OpView, editor: Editor) -> list[relax.Expr]:
    """The operands of the stack that is reduced; empty if the call has another form."""
    stack = editor.view_of(view.args[0])
    axes = view.attrs["axis"]
    if stack is None or stack.name != "relax.stack" or axes is None:
        return []
    rank = stack.out_tensor.ndim
    if [axis % rank for axis in axes] != [(stack.attrs["axis"] or 0) % rank]:
        return []
    parts = editor.value_of(stack.args[0])
    dtype = dtype_of(view.out_type)
    # The mean of integers depends on how the division rounds; other integer reductions wrap around alike.
    is_known = dtype in FLOATS or (dtype in INTEGERS and view.name != "relax.mean")
    return list(parts.fields) if isinstance(parts, relax.Tuple) and is_known else []


def _chain(parts: list[relax.Expr], combine: _Binary, editor: Editor) -> relax.Expr:
    total, *rest = parts
    for number, part in enumerate(rest):
        total = combine(total if number == 0 else editor.emit(total, "partial"), part)
    return total


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(tuple(BINARY), unstack)]
