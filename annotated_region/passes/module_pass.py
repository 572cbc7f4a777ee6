"""Makes a TVM pass of a frozen dataclass with a ``transform_module`` method; its fields are the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import tvm

if TYPE_CHECKING:
    from annotated_region.passes.region_session import RegionSession

    # What `module_pass` makes of a class is one of TVM's passes. The class itself cannot be: C++ makes those.
    Pass = tvm.transform.Pass
else:
    Pass = object

__all__ = ["ModulePass", "module_pass"]

Kind = TypeVar("Kind", bound=type["ModulePass"])


class ModulePass(Pass):
    """What readers and type checkers see of a pass: it is called with a module, and gives a module."""

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Run the pass under the current ``PassContext``."""
        return self.transform_module(mod, tvm.transform.PassContext.current())

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """What the pass does; called by TVM's pass manager."""
        raise NotImplementedError

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, _session: RegionSession
    ) -> tvm.IRModule:
        """What the pass does among the passes of a session; most have no use for it."""
        return self.transform_module(mod, context)


def module_pass(kind: Kind) -> Kind:
    """Class decorator: instances become TVM passes, which go into ``tvm.transform.Sequential``.

    The pass is named for the class and runs at every optimisation level. It has the attributes and the
    ``repr`` of the instance, which tell its options.
    """
    made: Kind = tvm.ir.transform.module_pass(kind, opt_level=0, name=kind.__name__)
    made.__repr__ = _repr_of_options  # type: ignore[method-assign, assignment]
    return made


def _repr_of_options(made: ModulePass) -> str:
    # TVM's wrapper looks up in the instance what is asked of `__getattr__`.
    return str(made.__getattr__("__repr__")())  # type: ignore[attr-defined]
