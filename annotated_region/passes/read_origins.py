"""ReadOrigins: gives bindings the origins that an attribute tells, and takes the attribute away.

    R.func_attr({"annotated_region.origins": {"lv": "/conv"}})
    lv = R.nn.conv2d(x, w)                       ->      lv = R.nn.conv2d(x, w)      # from /conv

It runs on a module that was read from text, before anything renames or replaces its bindings: `partition`
and `explain` run it first of all. A function without the attribute stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.modules import updated
from annotated_region.functions.origin_attribute import without_attribute
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["ReadOrigins"]


@module_pass
@dataclass(frozen=True)
class ReadOrigins(ModulePass):
    """Take origins out of the attribute that `WriteOrigins` makes.

    Raises
    ------
    InvalidModuleError
        The attribute is no map from names to texts.

    Notes
    -----
    Linear in the bindings. Names that no binding has are passed over: a text may have been edited.
    """

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return updated(
            mod,
            {
                name: without_attribute(func, name.name_hint)
                for name, func in mod.functions_items()
                if isinstance(func, relax.Function)
            },
        )
