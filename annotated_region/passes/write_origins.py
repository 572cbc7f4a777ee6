"""WriteOrigins: stores the origins of bindings in an attribute of each function, for TVMScript.

    lv = R.nn.conv2d(x, w)   # from /conv   ->   R.func_attr({"annotated_region.origins": {"lv": "/conv"}})
                                                 lv = R.nn.conv2d(x, w)

It runs last, right before a module is printed: origins are spans, which TVMScript does not print. Use it for
printing only, because structural comparison considers attributes but ignores spans. `ReadOrigins` is the
inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.modules import updated
from annotated_region.functions.origin_attribute import with_attribute
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["WriteOrigins"]


@module_pass
@dataclass(frozen=True)
class WriteOrigins(ModulePass):
    """Put the origins of bindings into the attribute ``annotated_region.origins`` of their functions.

    Notes
    -----
    Linear in the number of bindings. Variables whose name is not unique in the function, or not a Python
    identifier, are omitted, because TVMScript renames them.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        functions = mod.functions_items()
        return updated(
            mod, {name: with_attribute(func) for name, func in functions if isinstance(func, relax.Function)}
        )
