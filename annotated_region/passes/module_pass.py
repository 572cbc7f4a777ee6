"""Turns a frozen dataclass with a ``transform_module`` method into a TVM pass; its fields are the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import tvm

from annotated_region.serial import one_at_a_time

if TYPE_CHECKING:
    from annotated_region.passes.region_session import RegionSession

    # `module_pass` turns a class into a TVM pass. The class cannot derive from `Pass` at run time, because
    # TVM's passes are constructed in C++.
    Pass = tvm.transform.Pass
else:
    Pass = object

__all__ = ["ModulePass", "module_pass"]

Kind = TypeVar("Kind", bound=type["ModulePass"])


class ModulePass(Pass):
    """The static interface of a pass, for readers and type checkers: a callable from module to module."""

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Run the pass under the current ``PassContext``."""
        return self.transform_module(mod, tvm.transform.PassContext.current())

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Transform a module; called by TVM's pass manager."""
        raise NotImplementedError

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, _session: RegionSession
    ) -> tvm.IRModule:
        """Transform a module as part of a session, which most passes ignore."""
        return self.transform_module(mod, context)


def module_pass(kind: Kind) -> Kind:
    """Class decorator: instances become TVM passes, usable in ``tvm.transform.Sequential``.

    The pass has the name of the class and runs at every optimisation level. Attributes and ``repr`` are
    those of the instance, so the options are visible.
    """
    kind.transform_module = one_at_a_time(kind.transform_module)  # type: ignore[method-assign]
    made: Kind = tvm.ir.transform.module_pass(kind, opt_level=0, name=kind.__name__)
    made.__repr__ = _repr_of_options  # type: ignore[method-assign, assignment]
    return made


def _repr_of_options(made: ModulePass) -> str:
    # TVM's wrapper forwards `__getattr__` to the instance.
    return str(made.__getattr__("__repr__")())  # type: ignore[attr-defined]
