"""Trials: the placements of models as they are, and with the claims on declined ops granted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import tvm

from annotated_region.advising.advice import Advice
from annotated_region.advising.timed_model import TimedModel
from annotated_region.costs import RooflineCost
from annotated_region.costs.model import CostModel
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import AnnotatedRegionError
from annotated_region.findings.wording import words_for_refusal
from annotated_region.functions.modules import without_uncalled
from annotated_region.measuring.timing import Clock, Time
from annotated_region.notes import ApartNote, DeclineNote, DeclineReason, Note
from annotated_region.passes.annotate_target import AnnotateTarget, Granted
from annotated_region.passes.partition_graph import PartitionGraph
from annotated_region.passes.pipeline import placement_passes
from annotated_region.passes.region_session import RegionSession, SessionStep
from annotated_region.policies.outcome import Outcome
from annotated_region.policies.policy import Policy
from annotated_region.regions.op_names import op_name_of
from annotated_region.regions.region_set import AnnotatedRegionSet

__all__ = ["Decline", "Trial", "Trials"]

_NEVER = (DeclineReason.NEVER_OFFLOADED, DeclineReason.NOT_AN_OP)
_MOST = 64
_UNTIMED = "no model was built and timed for it"

Pair = tuple[Time, Time]


@dataclass(frozen=True, slots=True)
class Decline:
    """An op that a target declines: its location, its op name, and the reason."""

    model: int
    granted: Granted
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trial:
    """Declined ops that are granted together, and the outcomes by the index of each model with some of them.

    Attributes
    ----------
    declines
        The ops.
    before, after
        The outcomes of the models as they are, and with the ops granted.
    """

    declines: tuple[Decline, ...]
    before: Mapping[int, Outcome]
    after: Mapping[int, Outcome]

    @property
    def seconds_saved(self) -> float:
        """The decrease of cost under the cost model."""
        before, after = (Outcome.total(list(each.values())) for each in (self.before, self.after))
        return before.seconds - after.seconds

    def granted(self, model: int) -> frozenset[Granted]:
        """The ops of one model."""
        return frozenset(decline.granted for decline in self.declines if decline.model == model)


class Trials:
    """Prepared modules, and their outcomes with and without granted claims.

    Parameters
    ----------
    mods
        The modules.
    targets
        The names of the targets, in the order of preference.
    policy
        As for `partition`. Its cost model determines the seconds; `RooflineCost` if it has none.
    """

    def __init__(
        self, mods: Sequence[tvm.IRModule], targets: Sequence[str], policy: Policy | None = None
    ) -> None:
        self._mods, self._targets, self._policy = mods, targets, policy
        self._model: CostModel = getattr(policy, "model", None) or RooflineCost()
        self._declines: list[Decline] = []
        self._between: list[Decline] = []
        self._before: list[Outcome] = []
        for number, mod in enumerate(mods):
            sets, notes = self._placed(mod, frozenset())
            self._before.append(self._outcome(sets))
            for regions in sets:
                self._note(number, regions.dataflow, notes.get(regions.dataflow.name, ()))

    def candidates(self) -> Iterator[tuple[Decline, ...]]:
        """Declines to grant together: of one target, reason and op; and each that keeps regions apart."""
        groups: dict[tuple[str, str, str], list[Decline]] = {}
        for decline in dict.fromkeys(self._declines):
            groups.setdefault((decline.granted.target, decline.reason, decline.op), []).append(decline)
        single = [[decline] for decline in dict.fromkeys(self._between)]
        known = list(groups.values())
        several = [each for each in single if each not in known]
        yield from map(tuple, sorted([*known, *several], key=len, reverse=True)[:_MOST])

    def trial(self, declines: tuple[Decline, ...]) -> Trial:
        """The outcomes with some declined ops granted."""
        numbers = dict.fromkeys(decline.model for decline in declines)
        trial = Trial(declines, {number: self._before[number] for number in numbers}, {})
        after = {
            number: self._outcome(self._placed(self._mods[number], trial.granted(number))[0])
            for number in numbers
        }
        return replace(trial, after=after)

    def timed(
        self, trials: Sequence[Trial], clock: Clock | None = None
    ) -> Iterator[tuple[int, Pair | AnnotatedRegionError]]:
        """For each model of each trial, with the trial's index: the times before and after, or why there are
        none.

        Each model is built once as it is, and once for each trial, which runs in turn with the former.
        """
        for model in sorted({model for trial in trials for model in trial.before}):
            with ExitStack() as builds:
                present = self._present(model, builds, clock)
                for number, trial in enumerate(trials):
                    if model in trial.before:
                        yield number, self._pair(present, model, trial)

    def _present(
        self, model: int, builds: ExitStack, clock: Clock | None
    ) -> TimedModel | AnnotatedRegionError:
        try:
            return TimedModel(self.partitioned(model), builds, clock)
        except AnnotatedRegionError as error:
            return error

    def _pair(
        self, present: TimedModel | AnnotatedRegionError, model: int, trial: Trial
    ) -> Pair | AnnotatedRegionError:
        if isinstance(present, AnnotatedRegionError):
            return present
        try:
            return present.beside(self.partitioned(model, trial.granted(model)))
        except AnnotatedRegionError as error:
            return error

    def partitioned(self, model: int, granted: frozenset[Granted] = frozenset()) -> tvm.IRModule:
        """A module, partitioned with some claims granted."""
        session, mod = RegionSession(), self._mods[model]
        steps = [*self._steps(granted), PartitionGraph()]
        return without_uncalled(mod, session.with_annotations(session.run(steps, mod)))

    def advice(self, trial: Trial, times: Sequence[Pair | AnnotatedRegionError] = ()) -> Advice:
        """A trial as advice; `times` are those of its models."""
        was, now = list(self._before), list(self._before)
        for number, outcome in trial.after.items():
            now[number] = outcome
        before, after = Outcome.total(was), Outcome.total(now)
        first, several = trial.declines[0], len(self._mods) > 1
        seconds_before, seconds_after, doubt, why = _seconds(trial, times)
        return Advice(
            first.granted.target,
            first.reason,
            first.op,
            tuple(
                (f"{each.model}/" if several else "") + f"{each.granted.function}/{each.granted.name}"
                for each in trial.declines
            ),
            before.regions,
            after.regions,
            before.host,
            after.host,
            before.crossings,
            after.crossings,
            seconds_before,
            seconds_after,
            doubt,
            why,
        )

    def _steps(self, granted: frozenset[Granted]) -> list[SessionStep]:
        _annotate, *others = placement_passes(self._targets, self._policy)
        return [AnnotateTarget(self._targets, granted=granted), *others]

    def _placed(
        self, mod: tvm.IRModule, granted: frozenset[Granted]
    ) -> tuple[list[AnnotatedRegionSet], Mapping[str, Sequence[Note]]]:
        """The regions of a module with some claims granted; also the notes of the passes if none are."""
        session = RegionSession(keeps_notes=not granted)
        placed = session.run(self._steps(granted), mod)
        return list(session.take(placed).values()), session.notes

    def _outcome(self, sets: Sequence[AnnotatedRegionSet]) -> Outcome:
        """The total outcome of the regions of all functions."""
        return Outcome.total([Outcome.of(regions, self._model) for regions in sets])

    def _note(self, model: int, graph: DataflowGraph, notes: Sequence[Note]) -> None:
        """Record the declined ops, and those that separate two regions in the result."""
        ops = {node.var.name: op_name_of(node.value) for node in graph.nodes}
        apart: Sequence[ApartNote] = [note for note in notes if isinstance(note, ApartNote)]
        known: dict[tuple[str, str], Decline] = {}
        for note in notes:
            if isinstance(note, DeclineNote) and note.refusal.reason not in _NEVER:
                granted = Granted(note.target, graph.name, note.var.name)
                # A pattern may decline for the reason of the rule; one change of the rule grants both.
                reason = words_for_refusal(replace(note.refusal, pattern=None))
                decline = Decline(model, granted, ops.get(note.var.name, "a lowered call"), reason)
                self._declines.append(decline)
                known[note.target, note.var.name] = decline
        for pair in apart[-1].pairs if apart else ():
            blocker = None if pair.between is None else known.get((pair.target, pair.between.name))
            if blocker is not None:
                self._between.append(blocker)


def _seconds(
    trial: Trial, times: Sequence[Pair | AnnotatedRegionError]
) -> tuple[float, float, float | None, str | None]:
    """Seconds before and after; the doubt about their difference, or why they are estimated."""
    errors = [each for each in times if isinstance(each, AnnotatedRegionError)]
    if errors or not times:
        before, after = (Outcome.total(list(each.values())) for each in (trial.before, trial.after))
        return before.seconds, after.seconds, None, str(errors[0]) if errors else _UNTIMED
    pairs = [each for each in times if isinstance(each, tuple)]
    doubt = sum(time.seconds * time.spread for pair in pairs for time in pair)
    return sum(was.seconds for was, _ in pairs), sum(now.seconds for _, now in pairs), doubt, None
