"""Folds a scale and a shift that follow a norm into the norm.

::

    lv1 = layer_norm(x, ones, zeros)
    lv2 = multiply(lv1, w)               becomes     lv2 = layer_norm(x, w, zeros)
    lv3 = add(lv2, b)                                lv3 = layer_norm(x, w, b)

1.  A product with a vector, if the norm has a scale of ones and a shift of zeros: ``x * 1 * w + 0``.
2.  A sum with a vector, if the shift is zeros: ``x * w + 0 + b``.

The vector, constant or not, varies along the axis of the norm's scale (the last or the channel axis), and has
extent 1 on all other axes, so it does not broadcast the norm. The norm has no other reader.
"""

from __future__ import annotations

from math import prod

from tvm import relax

from annotated_region.passes.preparation.compositions import Parts, dtype_among
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.rewrites import either_way
from annotated_region.passes.preparation.tensors import constant_of, extents_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

NORMS = tuple(f"relax.nn.{kind}_norm" for kind in ("rms", "layer", "instance", "group"))


@either_way
def absorb_scale(view: OpView, data: relax.Expr, scale: relax.Expr, editor: Editor) -> relax.Expr | None:
    """Case 1."""
    parts = Parts(view, editor)
    norm = parts.own(data, *NORMS)
    if norm is None or not all(
        parts.number(argument) == neutral
        for argument, neutral in zip(norm.args[1:], (1.0, 0.0), strict=False)
    ):
        return None
    return _with_vector(norm, 1, scale, parts)


@either_way
def absorb_shift(view: OpView, data: relax.Expr, shift: relax.Expr, editor: Editor) -> relax.Expr | None:
    """Case 2."""
    parts = Parts(view, editor)
    norm = parts.own(data, *NORMS[1:])
    if norm is None or parts.number(norm.args[2]) != 0.0:
        return None
    return _with_vector(norm, 2, shift, parts)


def _with_vector(norm: OpView, position: int, tensor: relax.Expr, parts: Parts) -> relax.Expr | None:
    """`norm` with one argument replaced by `tensor`, if that is a vector along the axis of the norm."""
    vector = _vector(norm, norm.args[position], tensor, parts.editor)
    if vector is None:
        return None
    args = [*norm.args[:position], vector, *norm.args[position + 1 :]]
    return parts.raised(relax.Call(norm.call.op, args, norm.call.attrs))


def _vector(norm: OpView, old: relax.Expr, tensor: relax.Expr, editor: Editor) -> relax.Expr | None:
    """`tensor` in the shape of `old`; None if it does not vary along the same axis only."""
    size, given = extents_of(old), extents_of(tensor)
    rank = norm.out_tensor.ndim
    channelled = norm.name in NORMS[2:]
    axis = 1 if channelled else rank - 1
    wanted = tuple(size[0] if position == axis else 1 for position in range(rank))
    if len(size) != 1 or not given or dtype_among(tensor, ("float32",)) is None:
        return None
    if not all(isinstance(extent, int) for extent in given) or len(given) > rank:
        return None
    if given != wanted[rank - len(given) :] or prod(given) != size[0]:
        return None
    constant = editor.constant(tensor)
    if constant is not None:
        return constant_of(constant.reshape(-1))
    return tensor if len(given) == 1 else editor.emit(relax.op.reshape(tensor, size), "vector")


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.multiply",), absorb_scale),
    (("relax.add",), absorb_shift),
]
