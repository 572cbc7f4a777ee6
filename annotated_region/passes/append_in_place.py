"""AppendInPlace: a function writes rows behind its past, in memory of the caller, instead of returning them.

It runs before or after `partition`, and notes in the function what `build` has to do; for everything else the
module stays what it is. The built function takes other arguments::

    step(x, past [n, 4])                  step(x, past [capacity, 4], filled: Shape([n]))
        -> (y [s], new [s, 4])     =>         -> y [s]

Rows 0 to n of the memory are the past, and the rows from n on are those of the result, which a region writes
directly. Nothing is copied. If the memory has no room for them, TVM raises an error before anything is
written, and after any other error rows 0 to n are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.compilation.appending import APPENDED, pasts_of
from annotated_region.errors import UsageError
from annotated_region.functions.modules import updated
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["AppendInPlace"]


@module_pass
@checked_class
@dataclass(frozen=True)
class AppendInPlace(ModulePass):
    """Let a function append to its pasts; see the module docstring. `KeyValueCache` has the arguments.

    Parameters
    ----------
    function
        The name of the function.
    pasts
        For the name of each parameter with earlier rows, ``[n, ...]``, the number of the result with the new
        ones, ``[s, ...]``. All have the same n, a symbolic extent.

    Raises
    ------
    InvalidModuleError
        A past and its result do not fit together.
    UsageError
        The module has no such function, or the function no such parameter or result.

    Notes
    -----
    `build` raises a `BuildError` if such a result is not made by a region. Ops that stay on the host in this
    function are compiled one by one, because TVM fuses only functions without effects.
    """

    function: str
    pasts: Mapping[str, int]

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        for name, func in mod.functions_items():
            if name.name_hint == self.function and isinstance(func, relax.Function):
                pasts_of(self.function, func, self.pasts)
                return updated(mod, {name: func.with_attr(APPENDED, dict(self.pasts))})
        raise UsageError(f"the module has no function {self.function!r} of Relax")
