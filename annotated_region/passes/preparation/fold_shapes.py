"""Folds static shapes: ``shape_to_tensor(shape_of(x))`` is a constant if the shape of ``x`` is known."""

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
    """The shape as an int64 constant; the type of ``shape_of`` carries the extents."""
    extents = expect(relax.ShapeType, view.arg_types[0]).values
    if extents is None:
        return None
    numbers = [int(extent) for extent in extents if isinstance(extent, tvm.tirx.IntImm)]
    return constant_of(np.array(numbers, dtype="int64")) if len(numbers) == len(extents) else None


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.shape_to_tensor",), fold_shape_tensor)]
