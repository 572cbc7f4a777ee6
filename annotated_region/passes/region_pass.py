"""A pass over region sets: between two such passes nothing has to be written down and read again.

Run by TVM's pass manager, a region pass reads the annotations of each function, changes the set and
writes annotations. `partition` and `explain` read each function once, hand its set from pass to pass
(`Placement`), and write no annotation at all. Because a set that was read equals the set that was
written, both ways give the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm

from annotated_region.functions.modules import functions_to_partition, replace_functions
from annotated_region.passes.module_pass import ModulePass
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["Placement", "RegionPass"]


class RegionPass(ModulePass):
    """A pass that changes the region set of each function, one function after the other."""

    def transform_regions(self, regions: AnnotatedRegionSet) -> AnnotatedRegionSet:
        """What the pass does to one function; the set that is given stays as it is."""
        raise NotImplementedError

    def transform_function(self, regions: AnnotatedRegionSet, _mod: tvm.IRModule) -> AnnotatedRegionSet:
        """What the pass does to one function of a module, for passes that look at what it calls."""
        return self.transform_regions(regions)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return replace_functions(
            mod, lambda name, func: self.transform_function(AnnotatedRegionSet(func, name), mod).annotate()
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """A module and the region set of each of its functions that no code generator owns yet."""

    mod: tvm.IRModule
    regions: Mapping[tvm.ir.GlobalVar, AnnotatedRegionSet]

    @staticmethod
    def read(mod: tvm.IRModule) -> Placement:
        """Read a well-formed module; the functions come in the order of their names."""
        return Placement(
            mod,
            {name: AnnotatedRegionSet(func, name.name_hint) for name, func in functions_to_partition(mod)},
        )

    def after(self, passes: Sequence[RegionPass]) -> Placement:
        """What the passes, one after the other, make of it."""
        regions = dict(self.regions)
        for step in passes:
            regions = {name: step.transform_function(each, self.mod) for name, each in regions.items()}
        return Placement(self.mod, regions)
