"""Turns batch norm at inference into a multiplication and an addition, or folds it into a preceding weight.

    lv1 = conv2d(x, w)
    lv2 = batch_norm(lv1, gamma, beta, mean, var)   becomes   lv1 = conv2d(x, w * s)
    lv3 = lv2[0]                                              lv3 = add(lv1, beta - mean * s)

with ``s = gamma / sqrt(var + epsilon)``. A bias or other arithmetic with constants between the two is
folded along with it.

TVM's ``DecomposeOpsForInference`` ignores the attributes ``training``, ``center`` and ``scale`` and leaves
four arithmetic ops; its ``FoldBatchnormToConv2D`` ignores them too, and does not fold across a bias. Here a
batch norm is kept if it normalises with the statistics of the batch (``training=True``), if its running mean
or variance is read, or if one of its parameters is not constant.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.affine import ScaleAndShift
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.fold_affine import collapsed
from annotated_region.passes.preparation.tensors import FLOATS, dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["REWRITES"]


def fold_batch_norm(view: OpView, editor: Editor) -> relax.Expr | None:
    """The result tuple of the batch norm, with its first field computed by arithmetic."""
    if view.attrs["training"] or not editor.reads_first_field_only():
        return None
    step = _step_of(view, editor)
    result = collapsed(step, editor) if step is not None else None
    if result is None:
        return None
    normalized = result if isinstance(result, relax.Var) else editor.emit(result, "normalized")
    return relax.Tuple([normalized, *view.args[3:5]])


def _step_of(view: OpView, editor: Editor) -> ScaleAndShift | None:
    source, *parameters = view.args
    constants = [editor.constant(parameter) for parameter in parameters]
    if dtype_of(source.ty) not in FLOATS or any(constant is None for constant in constants):
        return None
    gamma, beta, mean, variance = (np.asarray(constant, dtype=np.float64) for constant in constants)
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(variance + view.attrs["epsilon"])
    scale = scale * gamma if view.attrs["scale"] else scale
    shift = (beta if view.attrs["center"] else 0) - mean * scale
    shape = [1] * tensor_type(source).ndim
    shape[view.attrs["axis"]] = -1
    return ScaleAndShift(source, scale.reshape(shape), shift.reshape(shape), (view.name,))


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.nn.batch_norm",), fold_batch_norm)]
