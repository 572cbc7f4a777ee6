r"""InlinePartitions: inlines external functions at their calls.

It is the inverse of PartitionGraph, for one target or all, in any order:

    y, b = dnnl_main_0(x)   \         a = conv2d(x, w)
    c = softmax(b)           |  ==>   b = relu(a)
    d = add(c, y)           /         y = max_pool2d(b)
                                      c = softmax(b)
                                      d = add(c, y)

Composites are inlined too. The result equals the module before annotation, up to the order of bindings and,
where the program bound one value to two names, up to the names of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.functions.inlining import inline_functions, is_inlinable
from annotated_region.functions.modules import require_well_formed
from annotated_region.passes.module_pass import ModulePass, module_pass
from annotated_region.targets.backend import backend_of

__all__ = ["InlinePartitions"]


@module_pass
@checked_class
@dataclass(frozen=True)
class InlinePartitions(ModulePass):
    """Inline the external functions of the given targets, from any partitioner.

    External functions without callers are removed. A function that is not straight-line code (it contains an
    `If`, or a local function that is not a composite) is left unchanged.

    Parameters
    ----------
    targets
        The names of the targets; None for all.

    Raises
    ------
    UnknownTargetError
        A target is not registered, and has no external function in the module.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Linear in the size of the result.
    """

    targets: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.targets is not None:
            named = [self.targets] if isinstance(self.targets, str) else self.targets
            object.__setattr__(self, "targets", tuple(named))

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        require_well_formed(mod)
        return inline_functions(mod, self._chosen(mod))

    def _chosen(self, mod: tvm.IRModule) -> dict[tvm.ir.GlobalVar, relax.Function]:
        """The external functions to inline."""
        external = {
            global_var: (str(func.attrs["Codegen"]), func)
            for global_var, func in mod.functions_items()
            if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs
        }
        targets = dict.fromkeys(target for target, _func in external.values())
        for target in self.targets or ():
            if target not in targets:
                backend_of(target)
        return {
            global_var: func
            for global_var, (target, func) in external.items()
            if (self.targets is None or target in self.targets) and is_inlinable(func)
        }
