"""profile: where the time of an executable goes.

Runs come in pairs, one with the clock and one without, so that a change of the machine's speed falls on both.
The first tells the parts, the second the whole.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np
import tvm
from tvm import relax

from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.errors import InputError, RunError
from annotated_region.profiling.clock import CallClock, Span
from annotated_region.profiling.parts import KernelTime, RegionTime
from annotated_region.profiling.times import Profile
from annotated_region.targets.backend import StepTime, backend_of

__all__ = ["profile"]

_WARMING = 8  # dnnl tries each step with and without workers in its first runs
_FAILURES = (RuntimeError, ValueError, TypeError, MemoryError)


def profile(
    executable: LinkedExecutable,
    inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray],
    rounds: int = 10,
) -> Profile:
    """Time the regions of an executable, the steps inside them, and the kernels of the host.

    Parameters
    ----------
    executable
        What `build` made. It runs as it is; nothing in it is compiled for being watched.
    inputs
        What ``main`` is called with, by the names of its parameters or in their order.
    rounds
        How many runs to time, with and without the clock each; some more go before them.

    Returns
    -------
    Medians over the rounds, in seconds a run.

    Raises
    ------
    InputError
        The inputs are not those of the parameters, or `rounds` is below one.
    RunError
        A run fails.

    Examples
    --------
    >>> print(ar.profile(ar.build(ar.partition(mod, ["dnnl"])), [image]))     # doctest: +SKIP
    """
    if rounds < 1:
        raise InputError(f"{rounds} rounds tell no time; ask for one at least")
    arguments = [tvm.runtime.tensor(np.asarray(array)) for array in _in_order(executable, inputs)]
    library = executable.jit()
    plain, watched = (relax.VirtualMachine(library, tvm.cpu()) for _ in range(2))
    clock = CallClock(executable.regions)
    watched.set_instrument(clock)
    _warm_up(plain["main"], watched["main"], arguments)
    totals, machine = [], []
    spans: list[Mapping[str, Span]] = []
    for _round in range(rounds):
        clock.start()
        watched["main"](*arguments)
        spans.append(clock.kernels)
        machine.append(clock.machine)
        start = perf_counter()
        plain["main"](*arguments)
        totals.append(perf_counter() - start)
    return _profile(executable, library, totals, machine, spans)


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
        for _run in range(_WARMING):
            plain(*arguments)
        watched(*arguments)
    except _FAILURES as error:
        raise RunError(f"the executable fails: {str(error).strip()}") from error


def _profile(
    executable: LinkedExecutable,
    library: tvm.runtime.Module,
    totals: Sequence[float],
    machine: Sequence[float],
    spans: Sequence[Mapping[str, Span]],
) -> Profile:
    names = list(dict.fromkeys(name for each in spans for name in each))
    seconds = {
        name: statistics.median(each[name].seconds if name in each else 0.0 for each in spans)
        for name in names
    }
    # The slowest first; those of the same time in the order of their calls.
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
            _steps(executable.regions[name].target, library, name),
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
        statistics.median(totals),
        tuple(regions),
        tuple(kernels),
        statistics.median(machine),
        len(totals),
        peak,
    )


def _steps(target: str, library: tvm.runtime.Module, symbol: str) -> tuple[StepTime, ...]:
    tell = backend_of(target).step_times
    return () if tell is None else tuple(tell(library, symbol))
