"""FuseTIRWithOpInfo: fuses like TVM's FuseTIR, and attaches to each fused PrimFunc the list of its ops.

It runs after ``FuseOps``. TVM's pass drops the attributes of the PrimFuncs it fuses; this pass first composes
their op infos, attached by `LegalizeWithOpInfo` or inferred, and attaches the composition to the result:

    fused_conv2d_add_relu:  call_tir(conv2d), call_tir(add), call_tir(relu)
        ->  one PrimFunc whose attribute op_info lists conv2d, add, relu

A function with a PrimFunc whose ops are unknown is fused too, without the attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.modules import passed
from annotated_region.op_info.attach import attach
from annotated_region.op_info.infer import composition_of
from annotated_region.op_info.info import Composition
from annotated_region.op_info.keep import compose
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["FuseTIRWithOpInfo"]


@module_pass
@dataclass(frozen=True)
class FuseTIRWithOpInfo(ModulePass):
    """Fuse the PrimFuncs that primitive functions call, and attach the composition of their ops.

    Raises
    ------
    InvalidModuleError
        TVM cannot fuse a function.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        composed = _compositions(mod)
        fused = passed(mod, relax.transform.FuseTIR())
        result = fused.clone()
        for global_var, func in fused.functions_items():
            composition = composed.get(global_var.name_hint)
            if composition is not None and isinstance(func, tvm.tirx.PrimFunc):
                result.update_func(global_var, attach(func, composition))
        return result


def _compositions(mod: tvm.IRModule) -> dict[str, Composition]:
    """By name, the ops that each primitive function of the module computes, where known."""

    def describe(callee: tvm.ir.GlobalVar) -> Composition | None:
        func = mod[callee]
        return composition_of(func) if isinstance(func, tvm.tirx.PrimFunc) else None

    found = {}
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function) and func.attrs and "Primitive" in func.attrs:
            composition = compose(func, describe)
            if composition is not None:
                found[global_var.name_hint] = composition
    return found
