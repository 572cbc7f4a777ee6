"""Rewrites a root mean square norm over all axes, which TVM cannot compile.

::

    lv = rms_norm(x, w, axes=[0, 1])    =>    lv_given  = expand_dims(x, axis=[0])
                                              lv_normed = rms_norm(lv_given, w, axes=[1, 2])
                                              lv        = squeeze(lv_normed, axis=[0])

TVM 0.27.0's kernel reads the mean, a tensor of rank 1, without an index ("Tensor dimension mismatch in
read"). Over all axes except a new first axis of extent 1, the norm is the same. The repair can be removed
with the first TVM for which ``tests/passes/host_repairs/test_whole_norms.py`` passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]


def norm_of_the_rest(view: OpView, editor: Editor) -> relax.Expr | None:
    """The norm over all axes except a new first one; None unless it is over all axes."""
    data, weight = view.args
    rank = view.out_tensor.ndim
    if rank < 1 or len(view.attrs["axes"]) < rank:
        return None
    given = editor.emit(relax.op.expand_dims(data, [0]), "given")
    axes = [int(axis) % rank + 1 for axis in view.attrs["axes"]]
    normed = relax.op.nn.rms_norm(given, weight, axes, float(view.attrs["epsilon"]))
    return relax.op.squeeze(editor.emit(normed, "normed"), [0])


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [(("relax.nn.rms_norm",), norm_of_the_rest)]
