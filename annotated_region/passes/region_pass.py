"""A pass over region sets: it transforms one function at a time and returns its regions and notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm

from annotated_region.collector import paused_collector
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
        The findings of the pass. A generator is consumed only if notes are kept, so expensive notes are
        free otherwise.
    """

    regions: AnnotatedRegionSet
    notes: Iterable[Note] = ()


class RegionPass(SessionPass):
    """A pass that transforms the region set of each function independently.

    A subclass is a frozen dataclass whose fields are its options.
    """

    def transform_regions(self, regions: AnnotatedRegionSet, mod: tvm.IRModule) -> RegionsAndNotes:
        """Transform the regions of one function of `mod`; the given set must not be modified."""
        raise NotImplementedError

    def require_applicable(self, regions: Iterable[AnnotatedRegionSet]) -> None:
        """Validate the options of the pass against all functions, before any is transformed."""

    @paused_collector()
    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """Transform all functions; called by TVM's pass manager, within a session or standalone."""
        left = {}
        sets = session.take(mod)
        self.require_applicable(sets.values())
        for name, regions in sets.items():
            result = self.transform_regions(regions, mod)
            session.note(name.name_hint, result.notes)
            left[name] = result.regions
        return session.leave(mod, left, context)
