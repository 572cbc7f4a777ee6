"""Moves ``dequantize`` of a table after the ``take`` of its rows.

    lv1 = dequantize(table_int8, scale, zero)                 lv1 = take(table_int8, words)
    lv2 = take(lv1, words)                          becomes   lv2 = dequantize(lv1, scale, zero)

Quantized transformers have the left form at each embedding, which dequantizes the whole vocabulary to look up
a few words. Dequantization is elementwise, so the results are bit-identical.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def take_quantized(view: OpView, editor: Editor) -> relax.Expr | None:
    """The rows taken from the quantized table, dequantized; None if scales vary by row."""
    dequantize = editor.view_of(view.args[0])
    if (
        dequantize is None
        or dequantize.name != "relax.dequantize"
        or not editor.is_constant(dequantize.args[0])
    ):
        return None
    table, *parameters = dequantize.args
    known = [editor.constant(parameter) for parameter in parameters]
    if any(array is None or array.size != 1 for array in known) or view.attrs["mode"] == "nan":
        return None  # an integer table has no NaN for an index out of bounds
    taken = editor.emit(relax.op.take(table, view.args[1], view.attrs["axis"], view.attrs["mode"]), "taken")
    return relax.op.dequantize(taken, *parameters, axis=-1, out_dtype=dequantize.attrs["out_dtype"])


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.take",), take_quantized)]
