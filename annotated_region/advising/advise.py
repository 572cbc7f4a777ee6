"""Advise: finds the declined ops whose claims would improve the placement most.

All ops of one target, op name and reason are granted together, and each op that separates two regions alone;
then the passes run again. So regions, host ops and crossings are exact for a rule that claims these ops.

Seconds are estimates of a cost model, or measured: the model is built as it is placed and with the ops
granted, and both run in turn. A rule only claims; the code generator is asked for the region all the same, so
what it can build is timed as if the rule had claimed it, and what it cannot stays an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import tvm

from annotated_region.advising.advice import Advice
from annotated_region.advising.trials import Pair, Trial, Trials
from annotated_region.arguments import target_names
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.costs.model import ConfirmingCostModel
from annotated_region.errors import AnnotatedRegionError, UsageError
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.read_origins import ReadOrigins
from annotated_region.policies.policy import Policy
from annotated_region.progress import progress_bar

__all__ = ["advise", "first_advice"]

_MEASURED = 8
"""How many changes are timed by default under a cost model that measures."""


@checked
@paused_collector()
def advise(
    mods: tvm.IRModule | Sequence[tvm.IRModule],
    targets: str | Sequence[str],
    policy: Policy | None = None,
    *,
    measure: int | None = None,
    progress: bool = True,
) -> list[Advice]:
    """The effects on the placement if targets claimed ops that they decline, best first.

    Parameters
    ----------
    mods
        A module, or several, whose effects are summed.
    targets
        The names of the targets, in the order of preference.
    policy
        As for `partition`. Its cost model estimates the seconds; `RooflineCost` if it has none.
    measure
        How many changes, those with the best estimates, are built and timed: whole models on generated
        inputs, in turn with the models as they are placed now. By default 8 if the cost model of the policy
        is `MeasuredCost`, otherwise none. Each takes a build of every model that has some of the ops.
    progress
        Whether to show a progress bar while models are timed, if stderr is a terminal.

    Returns
    -------
    A piece of advice for each reason of a target and each op that it is about, and for each declined op that
    keeps two regions apart; 64 at most, those about the most ops. Sorted by seconds saved, then by regions
    saved. `Advice.why_estimated` tells estimates from measurements.

    Raises
    ------
    UsageError
        `mods` are not modules, or the targets are not strings, or `measure` is negative.
    UnknownTargetError
        A target has no rule, pattern or backend.
    InvalidModuleError
        A module is not well formed.

    Notes
    -----
    The passes run once for each piece of advice, over the models that it is about. Whether a target computes
    the ops that its rule declines correctly is not examined; `check` does, once the rule claims them.

    Examples
    --------
    >>> print(ar.advise(mod, ["dnnl"], measure=4)[0])  # doctest: +SKIP
    """
    if measure is not None and measure < 0:
        raise UsageError(f"the argument measure is {measure}; pass the number of changes to time, or 0")
    given = [mods] if isinstance(mods, tvm.IRModule) else mods
    names = target_names(targets)
    prepare = tvm.transform.Sequential([ReadOrigins(), PrepareForInference(targets=names)])
    trials = Trials([prepare(mod) for mod in given], names, policy)
    found = [trials.trial(declines) for declines in trials.candidates()]
    ranked = sorted(found, key=lambda each: -each.seconds_saved)
    times = _times(trials, ranked[: _default(policy) if measure is None else measure], progress)
    advice = [trials.advice(trial, times.get(number, ())) for number, trial in enumerate(ranked)]
    return sorted(advice, key=lambda each: (-each.seconds_saved, each.regions_after - each.regions_before))


def first_advice(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    most: int = 4,
    prepare: bool = True,
) -> Advice | None:
    """The best advice by its estimate, among those about the most ops, if it is an improvement.

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
    passes = [ReadOrigins(), *([PrepareForInference(targets=names)] if prepare else [])]
    trials = Trials([tvm.transform.Sequential(passes)(mod)], names, policy)
    found = [trials.advice(trials.trial(declines)) for declines in islice(trials.candidates(), most)]
    better = [each for each in found if each.seconds_saved > 0 and each.host_after < each.host_before]
    return max(better, key=lambda each: each.seconds_saved, default=None)


def _default(policy: Policy | None) -> int:
    return _MEASURED if isinstance(getattr(policy, "model", None), ConfirmingCostModel) else 0


def _times(
    trials: Trials, chosen: Sequence[Trial], progress: bool
) -> dict[int, list[Pair | AnnotatedRegionError]]:
    """The times of some trials, by their index: a pair, or why there is none, for each of their models."""
    times: dict[int, list[Pair | AnnotatedRegionError]] = {}
    with progress_bar("timing models", sum(len(trial.before) for trial in chosen), progress) as advance:
        for number, pair in trials.timed(chosen):
            times.setdefault(number, []).append(pair)
            advance(1)
    return times
