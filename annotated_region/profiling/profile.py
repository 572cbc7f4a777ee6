"""profile: measures the times of the parts of an executable.

Runs come in pairs, one with the clock and one without, so that a change of the machine's speed affects both.
The former measures the parts, the latter the total; their order alternates. A machine has fast and slow
phases, so the times of a short model are bimodal, and separate medians of parts and total may come from
different phases. Therefore all values are taken from the same pairs: the middle half, ordered by time.
"""

from __future__ import annotations

import math
import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from time import perf_counter

import numpy as np
import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.errors import InputError, RunError
from annotated_region.profiling.clock import CallClock, Span
from annotated_region.profiling.parts import KernelTime, RegionTime
from annotated_region.profiling.times import Profile
from annotated_region.targets.backend import StepTime, backend_of

__all__ = ["middle_rounds", "profile"]

_WARMING = 8  # runs in which dnnl tries each step with and without workers
_SETTLING = 0.4  # seconds: compiler threads exit, and dnnl assumes contention for up to 0.32 s
_LEAST_ROUNDS, _LEAST_SECONDS = 10, 1.0
_RECORDED = 5
_FAILURES = (RuntimeError, ValueError, TypeError, MemoryError)


@checked
def profile(
    executable: LinkedExecutable,
    inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray],
    rounds: int | None = None,
) -> Profile:
    """Time the regions of an executable, the steps inside them, and the host kernels.

    Parameters
    ----------
    executable
        The result of `build`. It runs unmodified, without instrumentation in the code.
    inputs
        The arguments of ``main``, by parameter name or in parameter order.
    rounds
        The number of timed pairs of runs, with and without the clock, after warm-up runs. The default is
        ten, or for short runs as many as fit into a second.

    Returns
    -------
    Means over the middle half of the rounds, in seconds per run.

    Raises
    ------
    InputError
        The inputs do not match the parameters, or `rounds` is below one.
    RunError
        A run fails.

    Examples
    --------
    >>> print(ar.profile(ar.build(ar.partition(mod, ["dnnl"])), [image]))     # doctest: +SKIP
    """
    if rounds is not None and rounds < 1:
        raise InputError(f"{rounds} rounds cannot be timed; pass at least 1")
    arguments = [tvm.runtime.tensor(np.asarray(array)) for array in _in_order(executable, inputs)]
    library = executable.jit()
    plain, watched = (relax.VirtualMachine(library, tvm.cpu()) for _ in range(2))
    clock = CallClock(executable.regions)
    watched.set_instrument(clock)
    _warm_up(plain["main"], watched["main"], arguments)
    totals: list[float] = []
    machine: list[float] = []
    pairs: list[float] = []
    spans: list[Mapping[str, Span]] = []

    def with_clock() -> float:
        clock.start()
        seconds = _timed(watched["main"], arguments)
        spans.append(clock.kernels)
        machine.append(clock.machine)
        return seconds

    def without_clock() -> float:
        totals.append(_timed(plain["main"], arguments))
        return totals[-1]

    # The second run of a pair inherits caches and clock rate from the first, so the order alternates.
    orders = cycle([(with_clock, without_clock), (without_clock, with_clock)])
    while not _is_enough(pairs, rounds):
        pairs.append(math.fsum(run() for run in next(orders)))
    middle = middle_rounds(pairs)
    targets = {name: region.target for name, region in executable.regions.items() if name in spans[-1]}
    return _profile(
        executable,
        [totals[each] for each in middle],
        [machine[each] for each in middle],
        [spans[each] for each in middle],
        len(pairs),
        _timed_steps(targets, library, plain["main"], arguments)
        | _recorded(executable, plain["main"], arguments),
    )


def _timed(run: Callable[..., object], arguments: Sequence[tvm.runtime.Tensor]) -> float:
    start = perf_counter()
    run(*arguments)
    return perf_counter() - start


def _is_enough(pairs: Sequence[float], rounds: int | None) -> bool:
    if rounds is not None:
        return len(pairs) == rounds
    return len(pairs) >= _LEAST_ROUNDS and math.fsum(pairs) >= _LEAST_SECONDS


def middle_rounds(pairs: Sequence[float]) -> list[int]:
    """The middle half of the rounds, ordered by time; at least one."""
    ordered = sorted(range(len(pairs)), key=pairs.__getitem__)
    cut = len(ordered) // 4
    return sorted(ordered[cut : len(ordered) - cut])


def _in_order(
    executable: LinkedExecutable, inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray]
) -> list[np.ndarray]:
    names = executable.parameters
    if isinstance(inputs, Mapping):
        if set(inputs) != set(names):
            raise InputError(
                f"the inputs are called {', '.join(map(repr, inputs))}; the parameters are "
                f"{', '.join(map(repr, names))}"
            )
        return [inputs[name] for name in names]
    if len(inputs) != len(names):
        raise InputError(f"{len(inputs)} inputs for {len(names)} parameters: {', '.join(names)}")
    return list(inputs)


def _warm_up(
    plain: Callable[..., object], watched: Callable[..., object], arguments: Sequence[tvm.runtime.Tensor]
) -> None:
    try:
        start, runs = perf_counter(), 0
        while runs < _WARMING or perf_counter() - start < _SETTLING:
            plain(*arguments)
            runs += 1
        watched(*arguments)
    except _FAILURES as error:
        raise RunError(f"the executable fails: {str(error).strip()}") from error


def _profile(
    executable: LinkedExecutable,
    totals: Sequence[float],
    machine: Sequence[float],
    spans: Sequence[Mapping[str, Span]],
    rounds: int,
    steps: Mapping[str, tuple[StepTime, ...]],
) -> Profile:
    names = list(dict.fromkeys(name for each in spans for name in each))
    seconds = {
        name: statistics.fmean(each[name].seconds if name in each else 0.0 for each in spans)
        for name in names
    }
    # Slowest first; the sort is stable, so ties keep the order of the calls.
    ordered = sorted(names, key=lambda name: -seconds[name])
    last = {name: each[name] for each in spans for name in each}
    regions = (
        RegionTime(
            name,
            executable.regions[name].target,
            last[name].calls,
            seconds[name],
            last[name].bytes_in,
            last[name].bytes_out,
            steps.get(name, ()),
            executable.regions[name].ops,
        )
        for name in ordered
        if name in executable.regions
    )
    kernels = (
        KernelTime(name, last[name].calls, seconds[name])
        for name in ordered
        if name not in executable.regions
    )
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Profile(
        statistics.fmean(totals),
        tuple(regions),
        tuple(kernels),
        statistics.fmean(machine),
        rounds,
        peak,
    )


def _recorded(
    executable: LinkedExecutable, run: Callable[..., object], arguments: Sequence[tvm.runtime.Tensor]
) -> dict[str, tuple[StepTime, ...]]:
    """By symbol, the steps of regions whose targets report them only for recorded runs."""
    found: dict[str, tuple[StepTime, ...]] = {}
    for target in dict.fromkeys(region.target for region in executable.regions.values()):
        record = backend_of(target).recorded_steps
        if record is None:
            continue
        with record() as steps_of:
            for _run in range(_RECORDED):
                run(*arguments)
        symbols = [symbol for symbol, region in executable.regions.items() if region.target == target]
        found |= {symbol: tuple(steps_of(symbol)) for symbol in symbols}
    return found


def _timed_steps(
    targets: Mapping[str, str],
    library: tvm.runtime.Module,
    run: Callable[..., object],
    arguments: Sequence[tvm.runtime.Tensor],
) -> dict[str, tuple[StepTime, ...]]:
    """By symbol, the steps of regions whose targets time each run: medians, for one run may be disturbed.

    `targets` has the target of each region that runs.
    """
    tellers = {symbol: backend_of(target).step_times for symbol, target in targets.items()}
    told: dict[str, list[Sequence[StepTime]]] = {symbol: [] for symbol, tell in tellers.items() if tell}
    for _run in range(_RECORDED if told else 0):
        run(*arguments)
        for symbol, tell in tellers.items():
            if tell is not None:
                told[symbol].append(tell(library, symbol))
    return {symbol: tuple(map(_median, zip(*runs, strict=False))) for symbol, runs in told.items()}


def _median(steps: Sequence[StepTime]) -> StepTime:
    """One step in several runs."""
    return StepTime(steps[0].name, statistics.median(step.seconds for step in steps))
