"""RaiseToOps: replaces calls to lowered functions by calls to the Relax ops that they are known to compute.

It runs before annotation, on a module that was lowered too early:

    lv = R.call_tir(cls.fused_conv2d_relu, (x, w))    ->    lv_conv2d = R.nn.conv2d(x, w, strides=[2, 2], ...)
                                                            lv = R.nn.relu(lv_conv2d)

1.  A PrimFunc with op info, attached or inferred: one call for each of its ops.
2.  A PrimFunc without op info, or whose ops would have a different type: stays ``call_tir``.
3.  A private PrimFunc without callers is removed.

Attached op info is trusted; inferred op info is proved (see `annotated_region.op_info.infer`).
`AnnotateTarget` raises only the calls that a target claims; this pass raises all of them.
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
    """Replace ``call_tir`` of PrimFuncs with known ops by calls to Relax ops.

    Raises
    ------
    OpInfoError
        A PrimFunc carries malformed op info.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Inference runs once per process for each distinct PrimFunc, and takes a few milliseconds.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        raised = replace_functions(mod, lambda _, func: LoweredCalls.of(func, mod).raised())
        return without_uncalled(mod, raised)
