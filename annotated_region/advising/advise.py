"""Advise: finds the declined ops whose claims would improve the placement most.

All ops of one target, op name and reason are granted together, and each op that separates two regions alone;
then the passes run again. So the results are exact for a rule that claims these ops, except for seconds,
which are as accurate as the cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import tvm

from annotated_region.advising.advice import Advice
from annotated_region.arguments import target_names
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.costs import RooflineCost
from annotated_region.costs.model import CostModel
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.findings.wording import words_for_refusal
from annotated_region.notes import ApartNote, DeclineNote, DeclineReason, Note
from annotated_region.passes.annotate_target import AnnotateTarget, Granted
from annotated_region.passes.merge_compiler_regions import MergeCompilerRegions
from annotated_region.passes.pipeline import placement_passes
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.read_origins import ReadOrigins
from annotated_region.passes.region_session import RegionSession
from annotated_region.policies.outcome import Outcome
from annotated_region.policies.policy import Policy
from annotated_region.regions.op_names import op_name_of
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["advise", "first_advice"]

_NEVER = (DeclineReason.NEVER_OFFLOADED, DeclineReason.NOT_AN_OP)
_MOST = 64


@dataclass(frozen=True, slots=True)
class _Decline:
    """An op that a target declines: its location, its op name, and the reason."""

    model: int
    granted: Granted
    op: str
    reason: str


@checked
@paused_collector()
def advise(
    mods: tvm.IRModule | Sequence[tvm.IRModule], targets: str | Sequence[str], policy: Policy | None = None
) -> list[Advice]:
    """The effects on the placement if targets claimed ops that they decline, best first.

    Parameters
    ----------
    mods
        A module, or several, whose effects are summed.
    targets
        The names of the targets, in the order of preference.
    policy
        As for `partition`. Its cost model determines the savings; `RooflineCost` if it has none.

    Returns
    -------
    A piece of advice for each reason of a target and each op that it is about, and for each declined op that
    keeps two regions apart; 64 at most, those about the most ops. Sorted by seconds saved, then by regions
    saved.

    Raises
    ------
    UsageError
        `mods` are not modules, or the targets are not strings.
    UnknownTargetError
        A target has no rule, pattern or backend.
    InvalidModuleError
        A module is not well formed.

    Notes
    -----
    The passes run once for each piece of advice, over the models that it is about.

    Examples
    --------
    >>> print(ar.advise(mod, ["dnnl"])[0])  # doctest: +SKIP
    """
    given = [mods] if isinstance(mods, tvm.IRModule) else mods
    names = target_names(targets)
    model = getattr(policy, "model", None) or RooflineCost()
    prepare = tvm.transform.Sequential([ReadOrigins(), PrepareForInference(targets=names)])
    trials = _Trials([prepare(mod) for mod in given], names, policy, model)
    found = [trials.advice(declines) for declines in trials.candidates()]
    return sorted(found, key=lambda each: (-each.seconds_saved, each.regions_after - each.regions_before))


def first_advice(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    most: int = 4,
    prepare: bool = True,
) -> Advice | None:
    """The best advice, among those about the most ops, if it is an improvement.

    Parameters
    ----------
    mod, targets, policy
        As for `advise`, whose errors are raised.
    most
        The maximum number of changes to try.
    prepare
        As for `partition`.
    """
    names = target_names(targets)
    model = getattr(policy, "model", None) or RooflineCost()
    passes = [ReadOrigins(), *([PrepareForInference(targets=names)] if prepare else [])]
    trials = _Trials([tvm.transform.Sequential(passes)(mod)], names, policy, model)
    found = [trials.advice(declines) for declines in islice(trials.candidates(), most)]
    better = [each for each in found if each.seconds_saved > 0 and each.host_after < each.host_before]
    return max(better, key=lambda each: each.seconds_saved, default=None)


class _Trials:
    """Prepared modules, their outcomes, and the outcomes of granted claims."""

    def __init__(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[str], policy: Policy | None, model: CostModel
    ) -> None:
        self.mods, self.targets, self.policy, self.model = mods, targets, policy, model
        self.declines: list[_Decline] = []
        self.between: list[_Decline] = []
        self.before: list[Outcome] = []
        for number, mod in enumerate(mods):
            sets, notes = self.placed(mod, frozenset())
            self.before.append(self.outcome(sets))
            for regions in sets:
                self.note(number, regions.dataflow, notes.get(regions.dataflow.name, ()))

    def placed(
        self, mod: tvm.IRModule, granted: frozenset[Granted]
    ) -> tuple[list[AnnotatedRegionSet], Mapping[str, Sequence[Note]]]:
        """The regions of a module with some claims granted; also the notes of the passes if none are."""
        session = RegionSession(keeps_notes=not granted)
        annotate = AnnotateTarget(self.targets, granted=granted)
        resolve = placement_passes(self.targets, self.policy)[2]
        placed = session.run([annotate, MergeCompilerRegions(), resolve, MergeCompilerRegions()], mod)
        return list(session.take(placed).values()), session.notes

    def outcome(self, sets: Sequence[AnnotatedRegionSet]) -> Outcome:
        """The total outcome of the regions of all functions."""
        return Outcome.total([Outcome.of(regions, self.model) for regions in sets])

    def note(self, model: int, graph: DataflowGraph, notes: Sequence[Note]) -> None:
        """Record the declined ops, and those that separate two regions in the result."""
        ops = {node.var.name: op_name_of(node.value) for node in graph.nodes}
        apart: Sequence[ApartNote] = [note for note in notes if isinstance(note, ApartNote)]
        known: dict[tuple[str, str], _Decline] = {}
        for note in notes:
            if isinstance(note, DeclineNote) and note.refusal.reason not in _NEVER:
                granted = Granted(note.target, graph.name, note.var.name)
                # A pattern may decline for the reason of the rule; one change of the rule grants both.
                reason = words_for_refusal(replace(note.refusal, pattern=""))
                decline = _Decline(model, granted, ops.get(note.var.name, "a lowered call"), reason)
                self.declines.append(decline)
                known[note.target, note.var.name] = decline
        for pair in apart[-1].pairs if apart else ():
            blocker = None if pair.between is None else known.get((pair.target, pair.between.name))
            if blocker is not None:
                self.between.append(blocker)

    def candidates(self) -> Iterator[list[_Decline]]:
        """Declines to grant together: of one target, reason and op; and each that keeps regions apart."""
        groups: dict[tuple[str, str, str], list[_Decline]] = {}
        for decline in dict.fromkeys(self.declines):
            groups.setdefault((decline.granted.target, decline.reason, decline.op), []).append(decline)
        single = [[decline] for decline in dict.fromkeys(self.between)]
        known = list(groups.values())
        several = [each for each in single if each not in known]
        yield from sorted([*known, *several], key=len, reverse=True)[:_MOST]

    def advice(self, declines: Sequence[_Decline]) -> Advice:
        """The effect of granting some declined ops."""
        after = list(self.before)
        for number in dict.fromkeys(decline.model for decline in declines):
            granted = frozenset(decline.granted for decline in declines if decline.model == number)
            after[number] = self.outcome(self.placed(self.mods[number], granted)[0])
        was, now = Outcome.total(self.before), Outcome.total(after)
        several = len(self.mods) > 1
        return Advice(
            declines[0].granted.target,
            declines[0].reason,
            declines[0].op,
            tuple(
                (f"{each.model}/" if several else "") + f"{each.granted.function}/{each.granted.name}"
                for each in declines
            ),
            was.regions,
            now.regions,
            was.host,
            now.host,
            was.crossings,
            now.crossings,
            was.seconds - now.seconds,
        )
