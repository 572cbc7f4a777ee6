"""Folds static shapes: ``shape_to_tensor(shape_of(x))`` is a constant if the shape of ``x`` is known."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import constant_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def fold_shape_tensor(view: OpView, _editor: Editor) -> relax.Expr | None:
    """The shape as a constant of int64; a shape that comes from ``shape_of`` has its extents in its type."""
    extents = view.arg_types[0].values
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        return None
    return constant_of(np.array([int(extent) for extent in extents], dtype="int64"))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.shape_to_tensor",), fold_shape_tensor)]
