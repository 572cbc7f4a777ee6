"""Folds known shapes: ``shape_to_tensor(shape_of(x))`` is a constant, or ``shape_to_tensor((n, 3))``."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import constant_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["REWRITES"]


def fold_shape_tensor(view: OpView, _editor: Editor) -> relax.Expr | None:
    """The shape as an int64 constant, or with its extents; the type of ``shape_of`` carries them.

    Targets compute extents, but do not ask a tensor for its shape.
    """
    extents = expect(relax.ShapeType, view.arg_types[0]).values
    if extents is None:
        return None
    numbers = [int(extent) for extent in extents if isinstance(extent, tvm.tirx.IntImm)]
    if len(numbers) == len(extents):
        return constant_of(np.array(numbers, dtype="int64"))
    is_written = isinstance(view.args[0], relax.ShapeExpr)
    return None if is_written else relax.op.shape_to_tensor(relax.ShapeExpr(extents))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.shape_to_tensor",), fold_shape_tensor)]
