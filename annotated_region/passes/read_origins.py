"""ReadOrigins: restores the origins of bindings from a function attribute, and removes the attribute.

    R.func_attr({"annotated_region.origins": {"lv": "/conv"}})
    lv = R.nn.conv2d(x, w)                       ->      lv = R.nn.conv2d(x, w)      # from /conv

It runs on a module parsed from TVMScript, before any pass renames or replaces its bindings: `partition` and
`explain` run it first. A function without the attribute is unchanged.
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
    """Restore origins from the attribute that `WriteOrigins` makes.

    Raises
    ------
    InvalidModuleError
        The attribute is not a map from strings to strings.

    Notes
    -----
    Linear in the number of bindings. Names without a binding are ignored: the text may have been edited.
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
