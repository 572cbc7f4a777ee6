"""``bench``: measures the run time of a partitioned model, beside TVM alone and ONNX Runtime."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tvm
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tvm import relax

from annotated_region.command_line.availability import require_available, tell_remarks
from annotated_region.command_line.peers import (
    FAILURES,
    PEER,
    Refused,
    Run,
    why_left_out,
    with_onnx_runtime,
)
from annotated_region.command_line.placement import generator_options, partitioned
from annotated_region.command_line.quantizing import model_of
from annotated_region.command_line.saved import BENCH
from annotated_region.command_line.terminal import console, plain
from annotated_region.compilation.code_generation import external_functions
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.documents import written_document
from annotated_region.errors import BuildError, ModelError
from annotated_region.inputs import Arguments, arguments_for, read_arrays
from annotated_region.passes.build import build
from annotated_region.printable import first_line, printable
from annotated_region.profiling.profile import profile
from annotated_region.profiling.times import Profile
from annotated_region.tvm_adapter.types import expect

__all__ = ["run"]

Outcome = Sequence[float] | Refused


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    require_available(options.targets)
    tell_remarks(options)
    mod = model_of(options)
    arguments = _inputs(mod, options)
    inputs = list(arguments.arrays.values())
    cut = partitioned(mod, options)
    if not external_functions(cut):
        raise ModelError(
            f"{', '.join(options.targets)} would run nothing of this model, so there is nothing to measure; "
            "see annotated-region explain"
        )
    executable = build(cut, options=generator_options(options))
    engines: dict[str, Run | Refused] = {", ".join(options.targets): _machine(executable, inputs)}
    if options.host:
        engines["TVM alone"] = _tvm_alone(mod, inputs)
    engines |= _peers(options, inputs)
    outcomes = _outcomes(engines, max(options.rounds, 1))
    parts = profile(executable, inputs) if options.by_region else None
    if options.json:
        print(_json(outcomes, parts))
        return 0
    console().print(_table(outcomes))
    if arguments.made:
        console().print(plain("\n".join(f"made {words}" for words in arguments.made)), soft_wrap=True)
    if parts is not None:
        console().print(
            plain(f"\nWhere the time of {', '.join(options.targets)} goes\n{parts}"), soft_wrap=True
        )
    return 0


def _json(outcomes: Mapping[str, Outcome], parts: Profile | None) -> str:
    times: dict[str, object] = {name: _plain(outcome) for name, outcome in outcomes.items()}
    if parts is None:
        return json.dumps(times, indent=2)
    return written_document(BENCH, {"engines": times, "profile": parts.to_dict()}, indent=2)


def _plain(outcome: Outcome) -> object:
    return {"refused": outcome.reason} if isinstance(outcome, Refused) else sorted(outcome)


def _inputs(mod: tvm.IRModule, options: argparse.Namespace) -> Arguments:
    """An array for each parameter of ``main``: from a file, or generated to fit their uses."""
    if "main" not in {name.name_hint for name in mod.get_global_vars()}:
        raise ModelError("the module has no function main to run")
    given = None if options.inputs is None else read_arrays(options.inputs)
    return arguments_for(expect(relax.Function, mod["main"]), given, dict(options.extent))


def _machine(executable: LinkedExecutable, inputs: Sequence[np.ndarray]) -> Run:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(value) for value in inputs]
    return lambda: machine["main"](*arguments)


def _tvm_alone(mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> Run | Refused:
    try:
        return _machine(build(mod), inputs)
    except BuildError as error:
        return Refused(first_line(error))


def _peers(options: argparse.Namespace, inputs: Sequence[np.ndarray]) -> dict[str, Run | Refused]:
    """ONNX Runtime on the float model of the file; if it is omitted, a note has the reason."""
    path = Path(options.model)
    reason = why_left_out(path)
    if reason is not None:
        print(f"note: {PEER} is left out, because {printable(reason)}", file=sys.stderr)
        return {}
    name = PEER if options.quantize is None else f"{PEER}, not quantized"
    return {name: with_onnx_runtime(path, inputs, dict(options.value))}


def _outcomes(engines: Mapping[str, Run | Refused], rounds: int) -> dict[str, Outcome]:
    """Milliseconds of each engine that runs, in interleaved rounds after one warm-up round."""
    runs = {name: engine for name, engine in engines.items() if not isinstance(engine, Refused)}
    times = _times(runs, rounds)
    return {name: engine if isinstance(engine, Refused) else times[name] for name, engine in engines.items()}


def _times(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for number in progress.track(range(rounds + 1)):
            for name, run in runs.items():
                seconds = _timed(name, run)
                times[name] += [1e3 * seconds] if number else []
    return times


def _timed(name: str, run: Run) -> float:
    start = time.perf_counter()
    try:
        run()
    except FAILURES as error:
        raise ModelError(f"{name} cannot run this model: {first_line(error)}") from error
    return time.perf_counter() - start


def _table(outcomes: Mapping[str, Outcome]) -> Table:
    table = Table(title="Milliseconds", title_justify="left")
    for column in ("", "median", "fastest", "slowest", "times the first"):
        table.add_column(column, justify="right" if column else "left")
    first: float | None = None
    for name, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            table.add_row(plain(f"{name}: {outcome.reason}"))
            continue
        median = statistics.median(outcome)
        first = median if first is None else first
        numbers = (f"{median:.2f}", f"{min(outcome):.2f}", f"{max(outcome):.2f}", f"{median / first:.2f}")
        table.add_row(plain(name), *numbers)
    return table
