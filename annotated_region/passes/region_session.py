"""A session: region sets handed from pass to pass, and the notes of the passes, in one run over one module.

Run standalone, a region pass parses the annotations of each function, changes the region set and writes
annotations again; at 10 000 ops, parsing and writing dominate. In a session, the next pass receives the set
that the previous pass left, as long as the module still holds the same function object:

    mod -> AnnotateTarget -> mod -> MergeCompilerRegions -> mod -> ... -> PartitionGraph -> partitioned
                 |                      ^       |                               ^
                 '-- {main: set} -------'       '---- {main: set} --------------'     (the session)

In both modes the passes are TVM passes in a `Sequential`, so instruments can observe and skip them, and both
modes run the same method. Annotations are written into the module only where they can be observed:

1.  A pass runs standalone: its caller sees the module.
2.  Instruments are active: they print and compare the module after each pass.
3.  The session ends with regions that were not turned into functions, because `PartitionGraph` was disabled
    or skipped.

Parsing is the inverse of writing, so all modes give the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import tvm
from tvm import relax

from annotated_region.functions.modules import functions_to_partition, require_well_formed, updated
from annotated_region.notes import Note
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.serial import one_at_a_time

__all__ = ["RegionSession", "RegionSets", "SessionStep"]

RegionSets = Mapping[tvm.ir.GlobalVar, AnnotatedRegionSet]


class SessionStep(Protocol):
    """The interface of a pass in a session."""

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession, /
    ) -> tvm.IRModule:
        """Run the pass on a module as part of a session."""


class RegionSession:
    """One run of passes over one module.

    Parameters
    ----------
    writes
        Whether every pass writes its regions into the module.
    keeps_notes
        Whether to keep the notes of the passes.
    only
        The names of the functions to work on; by default all functions that no code generator owns.
    checked
        A module that has already been checked to be well formed.

    Attributes
    ----------
    notes
        The notes of the passes by function, in pass order.
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
        # By name: the function as the previous pass left it, and its regions. Functions are immutable, so
        # the regions stay valid while the module holds the same object, whatever else in it has changed.
        self._left: dict[str, tuple[relax.Function, AnnotatedRegionSet]] = {}
        self._failure: BaseException | None = None

    @one_at_a_time
    def run(self, steps: Sequence[SessionStep], mod: tvm.IRModule) -> tvm.IRModule:
        """Run passes as one `Sequential`.

        An exception of a pass propagates unchanged. Through TVM's FFI it would lose its cause, and its type
        too unless that is registered with TVM.
        """
        passes = [self._shared(step) for step in steps]
        try:
            return tvm.transform.Sequential(passes, name="annotated_region")(mod)
        except BaseException:
            if self._failure is None:
                raise
        # Raised outside the handler, which would overwrite its context.
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
        """The region set of each function, in name order: from the previous pass, else parsed.

        Raises
        ------
        InvalidModuleError
            The annotations of a function must be parsed, and the module is not well formed.
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
        """Raise `InvalidModuleError` unless a module is well formed; skipped for the `checked` module."""
        if not mod.same_as(self._checked):
            require_well_formed(mod)

    def vouch_for(self, mod: tvm.IRModule) -> None:
        """Take a module as well formed, because a pass of this package made it from one that is."""
        self._checked = mod

    def leave(
        self, mod: tvm.IRModule, regions: RegionSets, context: tvm.ir.transform.PassContext
    ) -> tvm.IRModule:
        """The module with the functions of `regions`, annotated if a caller or an instrument can see it."""
        is_seen = self._writes or bool(context.instruments)
        functions = {name: each.annotate() if is_seen else each.func for name, each in regions.items()}
        self._left = {name.name_hint: (functions[name], each) for name, each in regions.items()}
        return updated(mod, functions)

    def consume(self) -> None:
        """Drop all region sets: the regions have become external functions."""
        self._left = {}

    def with_annotations(self, mod: tvm.IRModule) -> tvm.IRModule:
        """The module with annotations for all regions that have not become external functions."""
        known = {name: self._known(name, func) for name, func in functions_to_partition(mod)}
        return updated(mod, {name: each.annotate() for name, each in known.items() if each})

    def note(self, function: str, notes: Iterable[Note]) -> None:
        """Record notes about a function. A generator of notes is not consumed unless notes are kept."""
        if self._keeps_notes:
            self.notes.setdefault(function, []).extend(notes)

    def _known(self, name: tvm.ir.GlobalVar, func: relax.Function) -> AnnotatedRegionSet | None:
        left, regions = self._left.get(name.name_hint, (None, None))
        return regions if func.same_as(left) else None
