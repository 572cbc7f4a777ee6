"""QuantizeWeights: stores the constant weights of matrix products in 8 or 4 bits.

It runs before or after `PrepareForInference`. The result recomputes the float weights in every run, with ops
that TVM compiles for any host, so the module has the same semantics with any target or none::

    lv = R.matmul(x, w)                 lv_words  = ...                 # the packed integers, unpacked
                                        lv_floats = R.dequantize(lv_words, scales, zeros, axis=0)
                              ->        lv_weight = R.permute_dims(R.reshape(lv_floats, ...))
                                        lv        = R.matmul(x, lv_weight)

A target that claims the whole composite, such as dnnl, multiplies with the packed integers directly and never
materializes the float weights.

1.  The right operand of a `matmul` is a constant matrix.
2.  The right operand is `permute_dims` of a constant matrix.
3.  One of these is broadcast to a matrix for each text of a batch, as PyTorch exports some products.
4.  Stacks of other matrices, computed weights, weights that are parameters, and dtypes other than float32 and
    float16 are unchanged; so is a weight with a non-finite element, which no integer can represent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.errors import InvalidModuleError, UsageError
from annotated_region.functions.modules import replace_functions
from annotated_region.origins import described
from annotated_region.passes.module_pass import ModulePass, module_pass
from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.reads import without_dead_bindings
from annotated_region.passes.preparation.remove_identities import without_broadcast
from annotated_region.passes.preparation.sweep import sweep
from annotated_region.passes.weight_rounding.expressions import weight_of
from annotated_region.passes.weight_rounding.rounding import rounded
from annotated_region.targets.op_view import OpView

__all__ = ["QuantizeWeights"]

BITS = (4, 8)
FLOATS = ("float32", "float16")


@module_pass
@checked_class
@dataclass(frozen=True)
class QuantizeWeights(ModulePass):
    """Round the constant weights of matrix products to the nearest integers; see the module docstring.

    Parameters
    ----------
    bits
        The number of bits per weight: 4 or 8.
    group
        The number of consecutive weights along the reduction axis of a column that share a scale; even, and
        a divisor of that axis in every weight. None: each column is one group.
    zero_points
        Whether each group also has a zero point, so that its range need not be symmetric about 0.

    Raises
    ------
    InvalidModuleError
        The module is not well formed, or the group does not divide the rows of a weight, which the message
        names.
    UsageError
        `bits` or `group` has a value other than those above.

    Notes
    -----
    Linear in the size of the weights. A scale has the dtype of the weight, so a float32 weight takes
    ``bits + 32 / group`` bits per element; float16 holds its value, and target dnnl stores that in
    ``bits + 16 / group``. The algorithm is in `passes/weight_rounding/rounding.py`.
    """

    bits: int = 4
    group: int | None = 32
    zero_points: bool = False

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise UsageError(f"weights of {self.bits} bits are not supported; pass 4 or 8")
        if self.group is not None and (self.group < 2 or self.group % 2):
            raise UsageError(f"groups of {self.group} weights are not supported; pass an even number or None")

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return replace_functions(mod, lambda _name, function: self._quantized(function))

    def _quantized(self, function: relax.Function) -> relax.Function:
        # Terminates: the rewrite matches only products with a constant, and its result has none.
        swept = sweep(function, {"relax.matmul": [self._product]}, lowers_weight=False)
        return function if swept.same_as(function) else without_dead_bindings(swept)

    def _product(self, view: OpView, editor: Editor) -> relax.Expr | None:
        """The product with its quantized weight; None if the weight is none of cases 1 to 3."""
        narrowed = without_broadcast(view, 1, editor)
        columns = _columns(view.args[1] if narrowed is None else narrowed.args[1], editor)
        if columns is None or columns.dtype.name not in FLOATS or not np.isfinite(columns).all():
            return None
        group = self.group or columns.shape[1]
        if columns.shape[1] % group:
            raise InvalidModuleError(
                f"the weight of {described(editor.target)} has {columns.shape[1]} rows, which is not a "
                f"multiple of the group size {group}; choose another group size"
            )
        numbers = rounded(columns, self.bits, group, zero_points=self.zero_points)
        weight = weight_of(numbers, self.bits, len(columns), editor)
        return relax.Call(view.call.op, [view.args[0], weight], view.call.attrs)


def _columns(weight: relax.Expr, editor: Editor) -> np.ndarray | None:
    """The transposed weight; None if it is not a constant matrix."""
    array, view = editor.constant(weight), editor.view_of(weight)
    if array is not None:
        return array.T if array.ndim == 2 else None
    if view is None or view.name != "relax.permute_dims" or view.attrs["axes"] not in (None, (1, 0)):
        return None
    array = editor.constant(view.args[0])
    return array if array is not None and array.ndim == 2 else None
