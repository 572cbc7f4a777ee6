"""Passes that take region sets from a session; standalone, they create a temporary session."""

from __future__ import annotations

import tvm

from annotated_region.passes.module_pass import ModulePass
from annotated_region.passes.region_session import RegionSession

__all__ = ["SessionPass"]


class SessionPass(ModulePass):
    """A pass that takes region sets from a session."""

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """Run the pass with the given session."""
        raise NotImplementedError

    def transform_module(self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager when the pass runs standalone."""
        return self.run(mod, context, RegionSession(writes=True))
