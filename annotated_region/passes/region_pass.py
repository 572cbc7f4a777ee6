"""A pass over region sets: it sees one function at a time, and returns its regions and its notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm

from annotated_region.notes import Note
from annotated_region.passes.region_session import RegionSession
from annotated_region.passes.session_pass import SessionPass
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["RegionPass", "RegionsAndNotes"]


@dataclass(frozen=True, slots=True)
class RegionsAndNotes:
    """What a region pass returns.

    Attributes
    ----------
    regions
        The regions of the function.
    notes
        What the pass found out. A generator runs only where notes are kept, so what takes time to find
        out costs nothing elsewhere.
    """

    regions: AnnotatedRegionSet
    notes: Iterable[Note] = ()


class RegionPass(SessionPass):
    """A pass that changes the region set of each function, one function after the other.

    A subclass is a frozen dataclass whose fields are its options.
    """

    def transform_regions(self, regions: AnnotatedRegionSet, mod: tvm.IRModule) -> RegionsAndNotes:
        """What the pass does to one function of a module; the set that is given stays as it is."""
        raise NotImplementedError

    def require_applicable(self, regions: Iterable[AnnotatedRegionSet]) -> None:
        """Check the options of the pass against all functions of a module, before it changes the first."""

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """Change the regions of all functions; called by TVM's pass manager, in a session or out of one."""
        left = {}
        sets = session.take(mod)
        self.require_applicable(sets.values())
        for name, regions in sets.items():
            result = self.transform_regions(regions, mod)
            session.note(name.name_hint, result.notes)
            left[name] = result.regions
        return session.leave(mod, left, context)
