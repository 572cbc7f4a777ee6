"""Times units: builds many of them in one module per target, and interleaves their runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax

from annotated_region.compilation.executable import compile_module, machine_of
from annotated_region.costs.model import HOST
from annotated_region.functions.entry import entry_function
from annotated_region.passes.host_repairs.repairing import repaired
from annotated_region.targets.extents import extents, size_of
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, set_type

__all__ = [
    "MOST_BYTES",
    "Clock",
    "Time",
    "Timed",
    "runs_of",
    "sample",
    "time_call",
    "time_copy",
    "time_together",
    "warm_up",
]

MOST_BYTES = 1 << 30
"""What is built together has at most this many bytes of inputs and constants, or is one unit, or one pair."""

Clock: TypeAlias = Callable[[], float]
"""Tells the time in seconds, of the wall or of the processor."""

# A sample repeats a unit until this much time has passed, to exceed the clock's resolution.
_SAMPLE_SECONDS = 2e-3
# A time is steady if its lower quartile is within this share of the minimum.
WIDEST_SPREAD = 0.25
# Runs before the first that counts, and seconds; dnnl tries steps with and without workers in them.
_WARMING, _SETTLING = 8, 0.4
# Unsteady times are measured again in further rounds, at most this many times.
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """A function to time, and the target that runs it as a whole."""

    target: str
    func: relax.Function

    @property
    def bytes(self) -> int:
        """The size of its inputs and constants. A built function holds the constants two or three times."""
        sizes = [size_of(param.ty) for param in self.func.params]

        def visit(expr: relax.Expr) -> None:
            if isinstance(expr, Constant):
                sizes.append(size_of(expr.ty))

        relax.analysis.post_order_visit(self.func, visit)
        return sum(sizes)


@dataclass(frozen=True, slots=True)
class Time:
    """A measured time.

    Attributes
    ----------
    seconds
        The minimum of the samples: other load makes a sample longer, never shorter.
    spread
        The distance of the lower quartile (at least the second smallest sample) from the minimum, relative to
        the minimum. Small if the minimum was reached several times; large if it was an outlier or the machine
        is busy.
    """

    seconds: float
    spread: float

    @staticmethod
    def of(samples: Sequence[float]) -> Time:
        """The time estimated from samples; the spread of a single sample is 0."""
        ordered = sorted(samples)
        witness = ordered[min(max(1, len(ordered) // 4), len(ordered) - 1)]
        return Time(ordered[0], (witness - ordered[0]) / ordered[0])

    @property
    def is_steady(self) -> bool:
        """Whether it is reliable enough to store."""
        return self.spread <= WIDEST_SPREAD


def time_together(units: Sequence[Timed], rounds: int) -> list[Time]:
    """The time of each unit.

    The units of all targets run in `rounds` interleaved rounds, so that a change of the machine's speed
    affects all of them. Units with unsteady times run in more rounds.

    Raises
    ------
    AnnotatedRegionError
        A target refuses one of its units.
    """
    with ExitStack() as builds:
        return _times(runs_of(units, builds), rounds)


def _times(runs: Sequence[Callable[[], object]], rounds: int) -> list[Time]:
    samples: list[list[float]] = [[] for _ in runs]
    unsteady = list(range(len(runs)))
    for _repeat in range(1 + REPEATS):
        for _round in range(rounds):
            for number in unsteady:
                samples[number].append(sample(runs[number]))
        unsteady = [number for number in unsteady if not Time.of(samples[number]).is_steady]
    return [Time.of(times) for times in samples]


def runs_of(units: Sequence[Timed], builds: ExitStack) -> list[Callable[[], object]]:
    """Functions that run each unit once; built in one module per target, and called once.

    What the host runs is repaired before, as `annotated_region.build` does it. Closing `builds` frees the
    memory of what was built; the functions must not be called afterwards.

    Raises
    ------
    AnnotatedRegionError
        A target refuses one of its units, or TVM cannot compile one for the host.
    """
    by_target: dict[str, dict[int, relax.Function]] = {}
    for number, unit in enumerate(units):
        by_target.setdefault(unit.target, {})[number] = unit.func
    runs: dict[int, Callable[[], object]] = {}
    for target, functions in by_target.items():
        mod = _module(target, functions)
        machine = builds.enter_context(machine_of(compile_module(repaired(mod) if target == HOST else mod)))
        runs.update((number, _runner(machine, number, func)) for number, func in functions.items())
    for run in runs.values():
        run()
    return [runs[number] for number in range(len(units))]


def time_copy(size: int, rounds: int = 9) -> Time:
    """The time to copy `size` bytes within this machine's memory."""
    source = np.zeros(size, np.uint8)
    target = np.ones(size, np.uint8)
    return _times([lambda: np.copyto(target, source)], rounds)[0]


def time_call(count: int, rounds: int) -> Time:
    """The time to call a compiled function with `count` arguments from Python; it does nothing."""
    params = [relax.Var(f"x{index}", relax.TensorType((1, 1), "float32")) for index in range(count)]
    builder = relax.BlockBuilder()
    with builder.function("call", params):
        builder.emit_func_output(params[0] if params else relax.Tuple([]))
    return time_together([Timed(HOST, expect(relax.Function, builder.get()["call"]))], rounds)[0]


def warm_up(run: Callable[[], object]) -> None:
    """Run until it has settled: several times, and for long enough; fewer times if that takes very long."""
    began, count = time.perf_counter(), 0
    while True:
        run()
        count += 1
        elapsed = time.perf_counter() - began
        if elapsed > _SETTLING and (count >= _WARMING or elapsed > _WARMING * _SETTLING):
            return


def sample(run: Callable[[], object], clock: Clock | None = None) -> float:
    """The time of one run in seconds, as the mean over enough runs to exceed the clock's resolution.

    The clock is that of the wall if none is given.
    """
    tell = time.perf_counter if clock is None else clock
    count = 0
    start = tell()
    while True:
        run()
        count += 1
        elapsed = tell() - start
        if elapsed >= _SAMPLE_SECONDS:
            return elapsed / count


def _module(target: str, units: Mapping[int, relax.Function]) -> tvm.IRModule:
    """A module with an entry ``unit_<number>`` per unit, which calls it if it is an external function."""
    functions: dict[tvm.ir.GlobalVar, relax.Function] = {}
    for number, func in units.items():
        entry = f"unit_{number}"
        if target == HOST:
            functions[tvm.ir.GlobalVar(entry)] = func.with_attr("global_symbol", entry)
            continue
        callee = tvm.ir.GlobalVar(f"{entry}_on_{target}")
        external = func.with_attr("global_symbol", callee.name_hint).with_attr("Codegen", target)
        set_type(callee, external.ty)
        functions[callee] = external
        functions[tvm.ir.GlobalVar(entry)] = entry_function(entry, callee, func)
    mod = tvm.IRModule()
    for name, each in functions.items():
        mod.update_func(name, each)
    return mod


def _runner(machine: relax.VirtualMachine, number: int, func: relax.Function) -> Callable[[], object]:
    generator = np.random.default_rng(number)
    arguments = [_argument(param.ty, generator) for param in func.params]
    entry = machine[f"unit_{number}"]
    return lambda: entry(*arguments)


def _argument(ty: tvm.ir.Type, generator: np.random.Generator) -> object:
    """Seeded input: values around one, to avoid denormals and division by zero."""
    if isinstance(ty, relax.ShapeType):
        return tvm.runtime.ShapeTuple(tuple(int(expect(tvm.tirx.IntImm, each)) for each in ty.values or ()))
    shape, dtype = extents(ty), str(expect(relax.TensorType, ty).dtype)
    values = generator.uniform(0.5, 1.5, shape)
    return tvm.runtime.tensor(np.asarray(values).astype(dtype))
