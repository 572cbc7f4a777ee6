"""Makes a TVM pass of a class with a ``transform_module`` method; the class says its options."""

from __future__ import annotations

from typing import TypeVar

import tvm

__all__ = ["ModulePass", "module_pass"]

Kind = TypeVar("Kind", bound=type["ModulePass"])


class ModulePass:
    """What readers and type checkers see of a pass: it is called with a module, and gives a module."""

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Run the pass under the current ``PassContext``."""
        return self.transform_module(mod, tvm.transform.PassContext.current())

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """What the pass does; called by TVM's pass manager."""
        raise NotImplementedError


def module_pass(kind: Kind) -> Kind:
    """Class decorator: instances become TVM passes, which go into ``tvm.transform.Sequential``.

    The pass is named for the class and runs at every optimisation level.
    """
    made: Kind = tvm.ir.transform.module_pass(kind, opt_level=0, name=kind.__name__)
    return made
