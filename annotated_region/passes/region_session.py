"""A session: region sets handed from pass to pass, and the notes of the passes, in one run over one module.

Run by itself, a region pass reads the annotations of each function, changes the set and writes annotations.
At 10 000 ops most of that time is writing and reading. In a session, the set that a pass leaves is what the
next pass gets, as long as the module holds the very function that belongs to the set:

    mod -> AnnotateTarget -> mod -> MergeCompilerRegions -> mod -> ... -> PartitionGraph -> partitioned
                 |                      ^       |                               ^
                 '-- {main: set} -------'       '---- {main: set} --------------'     (the session)

Both are TVM passes in a `Sequential`, so that instruments see them and may skip them, and both run the same
method. Annotations are written into the module only where something could look for them:

1.  A pass by itself: its caller.
2.  A pass while instruments are active: they print and compare what a pass leaves.
3.  Regions that no pass has turned into functions when the session ends, because `PartitionGraph` was
    disabled or skipped.

As a set that was read equals the set that was written, all of these give the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import tvm
from tvm import relax

from annotated_region.functions.modules import functions_to_partition, require_well_formed, updated
from annotated_region.notes import Note
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["RegionSession", "RegionSets", "SessionStep"]

RegionSets = Mapping[tvm.ir.GlobalVar, AnnotatedRegionSet]


class SessionStep(Protocol):
    """A pass as a session runs it."""

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession, /
    ) -> tvm.IRModule:
        """What the pass does among the passes of a session."""


class RegionSession:
    """One run of passes over one module.

    Parameters
    ----------
    writes
        Whether every pass writes its regions into the module.
    keeps_notes
        Whether to keep what the passes note.
    only
        The names of the functions that the passes work on; by default all that no code generator owns.
    checked
        A module that is known to be well formed.

    Attributes
    ----------
    notes
        What the passes noted, by function, in the order of the passes.
    """

    def __init__(
        self,
        *,
        writes: bool = False,
        keeps_notes: bool = False,
        only: Iterable[str] | None = None,
        checked: tvm.IRModule | None = None,
    ) -> None:
        self.notes: dict[str, list[Note]] = {}
        self._writes = writes
        self._keeps_notes = keeps_notes
        self._only = None if only is None else frozenset(only)
        self._checked = checked
        # By name, a function as the pass before left it in the module, and its regions. As functions do not
        # change, the same function has the same regions, whatever else happened to the module.
        self._left: dict[str, tuple[relax.Function, AnnotatedRegionSet]] = {}
        self._failure: BaseException | None = None

    def run(self, steps: Sequence[SessionStep], mod: tvm.IRModule) -> tvm.IRModule:
        """Run passes as one `Sequential`.

        An error of a pass comes as it was raised: TVM would hand on its type and its text, but not its
        cause, and only the types that are registered with it.
        """
        passes = [self._shared(step) for step in steps]
        try:
            return tvm.transform.Sequential(passes, name="annotated_region")(mod)
        except BaseException:
            if self._failure is None:
                raise
        # Not in the handler, where it would get another context.
        raise self._failure

    def _shared(self, step: SessionStep) -> tvm.ir.transform.Pass:
        """A TVM pass that runs `step` in this session."""

        def run(mod: tvm.IRModule, context: tvm.ir.transform.PassContext) -> tvm.IRModule:
            try:
                return step.run(mod, context, self)
            except BaseException as error:
                self._failure = error
                raise

        return tvm.ir.transform.module_pass(run, opt_level=0, name=type(step).__name__)

    def take(self, mod: tvm.IRModule) -> RegionSets:
        """The regions of each function, in the order of their names: as they were left, or read.

        Raises
        ------
        InvalidModuleError
            A function has to be read, and the module is not well formed.
        MalformedAnnotationError
            The annotations of a function do not describe regions.
        """
        functions = {
            name: func
            for name, func in functions_to_partition(mod)
            if self._only is None or name.name_hint in self._only
        }
        known = {name: self._known(name, func) for name, func in functions.items()}
        if any(regions is None for regions in known.values()):
            self.require_well_formed(mod)
        return {
            name: AnnotatedRegionSet(functions[name], name.name_hint) if regions is None else regions
            for name, regions in known.items()
        }

    def require_well_formed(self, mod: tvm.IRModule) -> None:
        """Raise `InvalidModuleError` unless a module is well formed; the one that came in is known to be."""
        if not mod.same_as(self._checked):
            require_well_formed(mod)

    def leave(
        self, mod: tvm.IRModule, regions: RegionSets, context: tvm.ir.transform.PassContext
    ) -> tvm.IRModule:
        """The module with the functions of `regions`, annotated where a caller or an instrument looks."""
        is_seen = self._writes or bool(context.instruments)
        functions = {name: each.annotate() if is_seen else each.func for name, each in regions.items()}
        self._left = {name.name_hint: (functions[name], each) for name, each in regions.items()}
        return updated(mod, functions)

    def consume(self) -> None:
        """Forget all regions: they have become external functions."""
        self._left = {}

    def settled(self, mod: tvm.IRModule) -> tvm.IRModule:
        """The module with annotations where it holds regions that no pass has turned into functions."""
        known = {name: self._known(name, func) for name, func in functions_to_partition(mod)}
        return updated(mod, {name: each.annotate() for name, each in known.items() if each})

    def note(self, function: str, notes: Iterable[Note]) -> None:
        """Keep notes about a function. What makes them does not run if nothing keeps them."""
        if self._keeps_notes:
            self.notes.setdefault(function, []).extend(notes)

    def _known(self, name: tvm.ir.GlobalVar, func: relax.Function) -> AnnotatedRegionSet | None:
        left, regions = self._left.get(name.name_hint, (None, None))
        return regions if func.same_as(left) else None
