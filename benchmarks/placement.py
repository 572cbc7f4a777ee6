"""Does mixing engines pay? Each model on each engine alone and placed by measured cost, run in turns.

    PYTHONPATH=.:tests python benchmarks/placement.py --models gru resnet50-int8 --builds 300 --seconds 120

The engines are dnnl, onnxruntime, openvino and the host. `LeastCost(MeasuredCost())` times each distinct unit
once and keeps the times; if that takes more than the budget of builds or seconds, the model is shown without
the mixed placement, and the next run continues from the stored times. All programs are built before any is
timed, and their answers are compared. Ways that lead to the same program share it and its times, so that
they do not differ by noise alone. A model that fails becomes a row with its error.

Below the table stands why: by op, how much longer each engine takes than the fastest, over the calls that all
engines take; what entering a region of each costs; and by model, as `free`, the sum of each op's time on its
fastest engine over that on the best engine, which is what mixing would give if crossing cost nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from engine_differences import Differences
from mixing_models import MODELS, Sample, sample_of
from tvm import relax

import annotated_region as ar
from annotated_region.cost_units import CostUnit

HOST = "host"
ENGINES = ("dnnl", "onnxruntime", "openvino", HOST)
MIXED = "mixed"
WANTED, GOOD = 1.02, 0.87
"""No mixed placement may take more than `WANTED` of the best engine; one pays well below `GOOD`."""


SETTLING = 0.01
"""Seconds of calls before those that count, and of those: the workers of the engine before wait for work
busily, and would take the processor from those of the next one, as no program with one engine sees it.
"""


class OutOfBudgetError(Exception):
    """Measuring took more builds or seconds than it may."""


class BudgetedCost(ar.MeasuredCost):
    """Measured costs that raise an error when the budget is used up, and tell how far they are.

    Parameters
    ----------
    path
        The file of measured costs.
    builds, seconds
        How many units may be measured for a model, and for how long.

    Attributes
    ----------
    asked
        The units that were measured last: those of a model.
    """

    AT_ONCE = 24
    """The number of units between two looks at the budget."""

    def __init__(self, path: Path | None, builds: int, seconds: float) -> None:
        super().__init__(path, progress=False)
        self._builds, self._seconds = builds, seconds
        self.asked: Sequence[tuple[str, CostUnit]] = ()

    def prepare(self, questions: Sequence[tuple[str, CostUnit]]) -> None:
        """See `MeasuredCost`.

        Raises
        ------
        OutOfBudgetError
            The units of `questions` exceed the number of builds, or the seconds have passed.
        """
        began = time.perf_counter()
        for first in range(0, len(questions), self.AT_ONCE):
            passed = time.perf_counter() - began
            if first >= self._builds or passed > self._seconds:
                raise OutOfBudgetError(f"{first} of {len(questions)} units known after {passed:.0f} s")
            super().prepare(questions[first : first + self.AT_ONCE])
            _say(f"  {min(first + self.AT_ONCE, len(questions))} of {len(questions)} units")
        self.asked = questions


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one model.

    Attributes
    ----------
    milliseconds
        The median time of each way.
    regions
        The regions of the mixed placement, by target.
    note
        What kept ways from being measured; empty if nothing did.
    """

    milliseconds: dict[str, float]
    regions: Counter[str]
    note: str

    @property
    def best(self) -> str:
        """The fastest engine alone."""
        alone = [way for way in self.milliseconds if way != MIXED]
        return min(alone, key=self.milliseconds.__getitem__)

    @property
    def ratio(self) -> float | None:
        """The time of the mixed placement over that of the best engine; None if there is none."""
        mixed = self.milliseconds.get(MIXED)
        return None if mixed is None else mixed / self.milliseconds[self.best]


def main() -> int:
    """Print one line a model; 1 if a mixed placement is slower than it may be, or a model fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--costs", type=Path, help="the file of measured costs")
    parser.add_argument("--builds", type=int, default=2000, help="units measured for a model, at most")
    parser.add_argument("--seconds", type=float, default=600.0, help="measuring of a model, at most")
    options = parser.parse_args()
    costs = BudgetedCost(options.costs, options.builds, options.seconds)
    print(f"threads: {os.environ.get('OMP_NUM_THREADS', 'default')}; milliseconds, medians")
    differences = Differences(costs)
    ratios, failed = [], 0
    for number, name in enumerate(options.models):
        _say(f"{name}, {number + 1} of {len(options.models)}")
        try:
            row = measured(sample_of(name), options.engines, costs, options.rounds)
        except Exception as error:  # whatever fails on one model, the others are still worth measuring
            failed += 1
            print(f"{name:27} {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        free = ""
        if row.ratio is not None:
            ratios.append(row.ratio)
            free = f"  free {differences.add(costs.asked):.2f}"
        print(f"{name:27} {_told(row)}{free}", flush=True)
    print(_summary(ratios, failed))
    print(differences)
    return 1 if failed or any(ratio > WANTED for ratio in ratios) else 0


def measured(sample: Sample, engines: Sequence[str], costs: BudgetedCost, rounds: int) -> Row:
    """The times of a model on each engine alone and mixed."""
    targets = [engine for engine in engines if engine != HOST]
    mod = ar.passes.PrepareForInference(targets=targets)(sample.module)
    programs = {target: ar.partition(mod, [target], prepare=False) for target in targets}
    if HOST in engines:
        programs[HOST] = mod
    note = ""
    try:
        programs[MIXED] = ar.partition(mod, targets, ar.LeastCost(costs), prepare=False)
    except OutOfBudgetError as error:
        note = f"not mixed: {error}"
    first = {way: _first_equal(way, programs) for way in programs}
    machines = {
        way: relax.VirtualMachine(ar.build(programs[way]), tvm.cpu())["main"] for way in set(first.values())
    }
    times = _run(machines, sample, rounds)
    medians = {way: statistics.median(times[first[way]]) for way in programs}
    return Row(medians, _regions(programs[MIXED]) if MIXED in programs else Counter(), note)


def _first_equal(way: str, programs: dict[str, tvm.IRModule]) -> str:
    return next(other for other in programs if tvm_ffi.structural_equal(programs[other], programs[way]))


def _regions(mod: tvm.IRModule) -> Counter[str]:
    """The external functions of a module, by target."""
    attributes = (func.attrs for func in mod.functions.values() if func.attrs)
    return Counter(str(each["Codegen"]) for each in attributes if "Codegen" in each)


def _run(machines: dict[str, Any], sample: Sample, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each program, in interleaved rounds; their answers have to agree."""
    arguments = [tvm.runtime.tensor(array) for array in sample.arguments]
    order = sorted(machines)
    expected = _answers(machines[order[0]](*arguments))
    for way in order[1:]:
        for found, wanted in zip(_answers(machines[way](*arguments)), expected, strict=True):
            most = sample.tolerance * np.abs(wanted).max()
            np.testing.assert_allclose(found, wanted, rtol=0, atol=most, err_msg=f"{way} beside {order[0]}")
    times: dict[str, list[float]] = {way: [] for way in order}
    for number in range(rounds):
        for way in order[number % len(order) :] + order[: number % len(order)]:
            _calls(machines[way], arguments)
            times[way].append(statistics.median(_calls(machines[way], arguments)) * 1e3)
    return times


def _calls(machine: Any, arguments: Sequence[Any]) -> list[float]:
    """The seconds of each call, until `SETTLING` have passed."""
    seconds: list[float] = []
    while sum(seconds) < SETTLING:
        began = time.perf_counter()
        machine(*arguments)
        seconds.append(time.perf_counter() - began)
    return seconds


def _answers(result: Any) -> list[np.ndarray]:
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def _told(row: Row) -> str:
    """The figures of a model as text."""
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    times = "  ".join(f"{way} {each:.4g}" for way, each in row.milliseconds.items())
    return f"best {row.best:11} ratio {ratio:>4}  regions {dict(row.regions)}  {times}  {row.note}".rstrip()


def _summary(ratios: Sequence[float], failed: int) -> str:
    """The line below the table."""
    if not ratios:
        return f"no model mixed, {failed} failed"
    slow, good = (sum(ratio > WANTED for ratio in ratios), sum(ratio <= GOOD for ratio in ratios))
    mean = statistics.geometric_mean(ratios)
    return (
        f"{len(ratios)} models mixed: geometric mean {mean:.3f} of the best engine, "
        f"{good} at most {GOOD}, {slow} above {WANTED}; {failed} failed"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
