"""TransformLayout: stores the tensors of chosen ops in another layout, in lowered code.

It runs on a module of ``call_tir``, and finds out what each computes (see `op_info`). A chosen op
is lowered anew with its tensors in the wanted layout and the transposes that this needs. What follows an op
takes over its layout if there is a rule for it:

    x -> conv -> relu -> flatten            conv to NHWC
    x -> T -> conv' -> relu' -> T^-1 -> flatten

1.  A chosen op with a layout attribute: its data is transposed, its attributes are changed by the rule.
2.  An op with a rule, one of whose operands is in another layout: it stays in that layout.
3.  Any other call: it gets what it got before. The transform is undone right behind each op of case 1 and 2,
    and what nobody uses of that is removed at the end.

So the result is right whichever rules exist. No choice is made here: which ops to choose is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax

from annotated_region.modules import replace_functions
from annotated_region.op_info.calls import make_call
from annotated_region.op_info.infer import composition_of
from annotated_region.op_info.info import OpInfo
from annotated_region.op_info.layouts import (
    LayoutChange,
    Order,
    layout_attribute,
    layout_rule_of,
    order_between,
)
from annotated_region.passes.legalize_with_op_info import LegalizeWithOpInfo
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["TransformLayout"]


@module_pass
class TransformLayout(ModulePass):
    """Apply layouts to the chosen ops of a lowered module.

    What is not lowered yet stays what it is and is lowered with the rest.

    Parameters
    ----------
    layouts
        The wanted layout of the data by op name, such as ``{"relax.nn.conv2d": "NHWC"}``.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Removes dead code. Blocked layouts (NCHW4c) are not supported.
    """

    def __init__(self, layouts: Mapping[str, str]) -> None:
        self.layouts = dict(layouts)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        changed = replace_functions(mod, lambda _, func: _Transformer(mod, self.layouts).visit_expr(func))
        clean = relax.transform.DeadCodeElimination()
        return clean(LegalizeWithOpInfo()(clean(changed)))


@relax.expr_functor.mutator
class _Transformer(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the calls of one function in program order."""

    def __init__(self, mod: tvm.IRModule, layouts: Mapping[str, str]) -> None:
        super().__init__(mod)
        self.mod = mod
        self.layouts = layouts

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Called for each call, whose operands are rewritten already."""
        call = super().visit_call_(call)
        info = self.info_of(call)
        if info is None:
            return call
        arguments = list(call.args[1].fields)
        order = self.wanted(info) or self.inherited(arguments)
        rule = layout_rule_of(info.name)
        if order is None or rule is None or len(order) != call.ty.ndim:
            return call  # case 3
        change = rule(info, order)
        return call if change is None else self.transformed(change, arguments, order)

    def info_of(self, call: relax.Call) -> OpInfo | None:
        """What a ``call_tir`` of one tensor result computes, if that is one op."""
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.call_tir" or len(call.args) != 2:
            return None
        func = self.mod[call.args[0]]
        composition = composition_of(func) if isinstance(func, tvm.tirx.PrimFunc) else None
        single = (
            composition is not None and len(composition.ops) == 1 and isinstance(call.ty, relax.TensorType)
        )
        return composition.ops[0] if composition is not None and single else None

    def wanted(self, info: OpInfo) -> Order | None:
        """Case 1: the order that brings a chosen op into its layout."""
        name = layout_attribute(info)
        if name is None or info.name not in self.layouts:
            return None
        order = order_between(str(info.attrs[name]), self.layouts[info.name])
        return None if order == tuple(range(len(order or ()))) else order

    def inherited(self, arguments: list[relax.Expr]) -> Order | None:
        """Case 2: the order of an operand that is only there because a transform was undone."""
        axes = (self.undone(argument) for argument in arguments)
        return next((_inverse(order) for order in axes if order is not None), None)

    def undone(self, expr: relax.Expr) -> Order | None:
        """The axes of the transpose that `expr` is bound to; None if it is bound to something else."""
        value = self.builder_.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
            return None
        if value.op.name != "relax.permute_dims" or value.attrs.axes is None:
            return None
        return tuple(int(axis) % len(value.attrs.axes) for axis in value.attrs.axes)

    def transformed(self, change: LayoutChange, arguments: list[relax.Expr], order: Order) -> relax.Expr:
        """The op in the new layout, and the transpose that undoes it."""
        operands = {
            index: self.carried(argument, order) if index in change.carried else argument
            for index, argument in enumerate(arguments)
        }
        value = self.builder_.emit(make_call(change.info, operands, {}))
        return relax.op.permute_dims(value, list(_inverse(order)))

    def carried(self, expr: relax.Expr, order: Order) -> relax.Expr:
        """`expr` in the new order: what it was before it was undone, or transposed here."""
        axes = self.undone(expr)
        if axes is not None and _inverse(axes) == order:
            return self.builder_.lookup_binding(expr).args[0]
        missing = len(order) - expr.ty.ndim
        if missing:  # as broadcasting reads it: extents of one in front
            expr = self.builder_.emit(relax.op.reshape(expr, [1] * missing + list(expr.ty.shape)))
        return self.builder_.emit(relax.op.permute_dims(expr, list(order)))


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))
