"""Folds zero padding in front of a convolution into the padding attribute of the convolution.

    lv1 = pad(x, [0, 0, 0, 0, 1, 2, 1, 2])
    lv2 = conv2d(lv1, w, padding=[0, 0, 0, 0])   becomes   lv2 = conv2d(x, w, padding=[1, 1, 2, 2])

Models from frameworks with asymmetric "same" padding have such a ``pad`` at every strided convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.linear import CONVOLUTIONS
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def fold_padding(view: OpView, editor: Editor) -> relax.Expr | None:
    """The convolution of the unpadded input, if the padding is zero and only along spatial axes."""
    pad = editor.view_of(view.args[0])
    if pad is None or pad.name != "relax.nn.pad":
        return None
    if pad.attrs["pad_mode"] != "constant" or pad.attrs["pad_value"] != 0:
        return None
    padding = _joint_padding(view, pad.attrs["pad_width"])
    if padding is None:
        return None
    convolution = getattr(relax.op.nn, view.name.removeprefix("relax.nn."))
    call: relax.Call = convolution(pad.args[0], view.args[1], **{**view.attrs, "padding": padding})
    return call


def _joint_padding(view: OpView, widths: Sequence[int]) -> list[int] | None:
    """The sum of both paddings, all starts before all ends; None if a convolution cannot express it."""
    layout, own = view.attrs["data_layout"], view.attrs["padding"]
    spatial = [axis for axis, letter in enumerate(layout) if letter not in "NC"]
    elsewhere = [axis for axis in range(len(widths) // 2) if axis not in spatial]
    if not layout.isalpha() or min(widths) < 0 or any(_pair(widths, axis) != (0, 0) for axis in elsewhere):
        return None
    pairs = [_pair(widths, axis) for axis in spatial]
    added = [before for before, _ in pairs] + [after for _, after in pairs]
    return [mine + more for mine, more in zip(own, added, strict=True)]


def _pair(widths: Sequence[int], axis: int) -> tuple[int, int]:
    return widths[2 * axis], widths[2 * axis + 1]


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(CONVOLUTIONS, fold_padding)]
