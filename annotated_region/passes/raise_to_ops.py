"""RaiseToOps: turns calls of lowered functions back into calls of Relax ops, where it is known what they are.

It runs on a module that was lowered too early, before annotation:

    lv = R.call_tir(cls.fused_conv2d_relu, (x, w))    ->    lv_conv2d = R.nn.conv2d(x, w, strides=[2, 2], ...)
                                                            lv = R.nn.relu(lv_conv2d)

1.  A PrimFunc with op info, attached or inferred: one op call for each op inside.
2.  A PrimFunc that is not understood, or whose ops would have another type: stays ``call_tir``.
3.  A private PrimFunc without callers is removed.

Attached op info is believed; what is inferred is proved (see `annotated_region.op_info.infer`).
`AnnotateTarget` does the same to those calls alone that a target claims; this pass takes all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from annotated_region.functions.modules import replace_functions, without_uncalled
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["RaiseToOps"]


@module_pass
@dataclass(frozen=True)
class RaiseToOps(ModulePass):
    """Replace ``call_tir`` of understood PrimFuncs by calls to Relax ops.

    Raises
    ------
    OpInfoError
        A PrimFunc carries malformed op info.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Each distinct PrimFunc is inferred once in a process, which takes some milliseconds.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        raised = replace_functions(mod, lambda _, func: LoweredCalls.of(func, mod).raised())
        return without_uncalled(mod, raised)
