"""LegalizeWithOpInfo: lowers like TVM's LegalizeOps, and attaches to each PrimFunc the op it was made from.

It replaces ``LegalizeOps`` where lowered code will still be partitioned or its layouts planned:

    lv = R.nn.conv2d(x, w, ...)      ->      lv = R.call_tir(cls.conv2d, (x, w), ...)
                                             conv2d: T.func_attr({"op_info": '{"ops": [{"name":
                                                     "relax.nn.conv2d", "attrs": {"strides": ...'})

1.  The legalization is one ``call_tir`` on the operands of the op: the PrimFunc gets the attribute.
2.  Two ops lower to the same code, such as ``relu`` and ``maximum`` with 0: two PrimFuncs that differ only
    in the attribute.
3.  The legalization is any other expression: no single PrimFunc computes the op; nothing is attached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.functions.modules import passed
from annotated_region.op_info.attach import attach, attached, composition_of_lowering
from annotated_region.passes.module_pass import ModulePass, module_pass
from annotated_region.tvm_adapter.types import expect

__all__ = ["LegalizeWithOpInfo"]

Legalization = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


@module_pass
@checked_class
@dataclass(frozen=True)
class LegalizeWithOpInfo(ModulePass):
    """Lower every op that has a legalization, and attach op info.

    Parameters
    ----------
    customize_legalize_map
        Legalizations by op name, which override the registered ones, as in ``LegalizeOps``.

    Raises
    ------
    InvalidModuleError
        An op cannot be lowered.

    Notes
    -----
    Each op is lowered once, as without op info; the attribute costs about ten microseconds more.
    """

    customize_legalize_map: Mapping[str, Legalization] | None = None

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        wrapped = {name: _describing(legalize) for name, legalize in self._legalizations(mod).items()}
        return passed(mod, relax.transform.LegalizeOps(wrapped))

    def _legalizations(self, mod: tvm.IRModule) -> dict[str, Legalization]:
        """The legalization of each op in the module, in order of first use."""
        customized = self.customize_legalize_map or {}
        found: dict[str, Legalization] = {}
        for op in _ops_of(mod):
            legalize = customized.get(op.name) or op.get_attr("FLegalize")
            if legalize is not None:
                found[str(op.name)] = legalize
        return {**found, **customized}


def _ops_of(mod: tvm.IRModule) -> dict[tvm.ir.Op, None]:
    ops: dict[tvm.ir.Op, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.Op):
            ops[expr] = None

    for _, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return ops


def _describing(legalize: Legalization) -> Legalization:
    """`legalize`, followed by attaching the info of the op that was lowered."""

    def describe(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        return _attached_to(builder, call, legalize(builder, call))

    return describe


def _attached_to(builder: relax.BlockBuilder, call: relax.Call, lowered: relax.Expr) -> relax.Expr:
    if not _is_call_tir(lowered):
        return lowered  # case 3
    callee = expect(tvm.ir.GlobalVar, lowered.args[0])
    func = builder.get()[callee]
    composition = composition_of_lowering(call, lowered)
    if composition is None or not isinstance(func, tvm.tirx.PrimFunc):
        return lowered
    before = attached(func)
    if before == composition:
        return lowered
    described = attach(func, composition)
    if before is None:
        builder.update_func(callee, described)
        return lowered
    other = builder.add_func(described, callee.name_hint)  # case 2
    args = [other, *lowered.args[1:]]
    return relax.Call(lowered.op, args, lowered.attrs, lowered.ty_args, lowered.span)


def _is_call_tir(expr: relax.Expr) -> TypeGuard[relax.Call]:
    if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.Op):
        return False
    return expr.op.name == "relax.call_tir"
