"""Recognizes quotients of integers that are rounded down, in the parts that PyTorch exports them as.

PyTorch's exporter to ONNX writes ``torch.div(x, 5, rounding_mode="floor")`` with ONNX's quotient, which
truncates, as it computes the lengths behind convolutions from the lengths of a batch (Wav2Vec2, SEW)::

    lv1 = divide(x, 5)                                           becomes     floor_divide(x, 5)
    lv2 = logical_not(equal(floor_mod(x, 5), 0))
    lv3 = logical_and(less(x, 0), lv2)
    lv4 = where(lv3, subtract(lv1, 1), lv1)

Proof, for a divisor ``d > 0``: the truncated quotient is the floor of ``x / d`` if ``x >= 0`` or ``d``
divides ``x``, and one more otherwise. Subtracting 1 does not wrap around: a quotient that was rounded up is
that of a number with a remainder, so ``d >= 2``, and its magnitude is at most half of the largest.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

SIGNED = ("int8", "int16", "int32", "int64")


def round_down(view: OpView, editor: Editor) -> relax.Expr | None:
    """``floor_divide`` for a truncated quotient that is corrected."""
    condition, corrected, truncated = view.args
    quotient = _view(truncated, "relax.divide", editor)
    if quotient is None or dtype_of(view.out_type) not in SIGNED:
        return None
    number, divisor = quotient.args
    step = _number(divisor, editor)
    if step is None or step <= 0 or not _is_one_less(corrected, truncated, editor):
        return None
    both = _view(condition, "relax.logical_and", editor)
    sides = () if both is None else (both.args, both.args[::-1])
    is_corrected = any(
        _is_negative(one, number, editor) and _has_remainder(other, number, step, editor)
        for one, other in sides
    )
    return relax.op.floor_divide(number, divisor) if is_corrected else None


def _is_one_less(expr: relax.Expr, than: relax.Expr, editor: Editor) -> bool:
    for name, number in (("relax.subtract", 1), ("relax.add", -1)):
        view = _view(expr, name, editor)
        if view is not None and _are_same(view.args[0], than, editor):
            return _number(view.args[1], editor) == number
    return False


def _is_negative(condition: relax.Expr, number: relax.Expr, editor: Editor) -> bool:
    view = _view(condition, "relax.less", editor)
    return view is not None and _are_same(view.args[0], number, editor) and _is_zero(view.args[1], editor)


def _has_remainder(condition: relax.Expr, number: relax.Expr, step: int, editor: Editor) -> bool:
    negated = _view(condition, "relax.logical_not", editor)
    compared, name = (condition, "relax.not_equal") if negated is None else (negated.args[0], "relax.equal")
    view = _view(compared, name, editor)
    rest = None if view is None else _view(view.args[0], "relax.floor_mod", editor)
    if view is None or rest is None or not _is_zero(view.args[1], editor):
        return False
    return _are_same(rest.args[0], number, editor) and _number(rest.args[1], editor) == step


def _view(expr: relax.Expr, name: str, editor: Editor) -> OpView | None:
    view = editor.view_of(expr)
    return view if view is not None and view.name == name else None


def _are_same(one: relax.Expr, other: relax.Expr, editor: Editor) -> bool:
    return editor.origin(one).same_as(editor.origin(other))


def _is_zero(expr: relax.Expr, editor: Editor) -> bool:
    return _number(expr, editor) == 0


def _number(expr: relax.Expr, editor: Editor) -> int | None:
    """The common value of a constant tensor; None if it is not constant or not uniform."""
    array = editor.constant(expr)
    if array is None or not array.size or not bool((array == array.flat[0]).all()):
        return None
    return int(array.flat[0])


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.where",), round_down)]
