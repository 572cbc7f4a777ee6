"""``bench``: how long a model takes with its regions on their targets, beside TVM alone and ONNX Runtime."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from tvm import relax

from annotated_region.command_line.command import Command, console
from annotated_region.command_line.models import read_model
from annotated_region.command_line.options import add_placement_arguments, policy_of
from annotated_region.errors import ModelError
from annotated_region.passes.build import build
from annotated_region.passes.pipeline import partition

__all__ = ["COMMAND"]

Run = Callable[[], object]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="how often each runs (default: 10)"
    )
    parser.add_argument("--host", action="store_true", help="also TVM alone, which may take minutes")
    parser.add_argument("--json", action="store_true", help="print the times as JSON")


def _run(options: argparse.Namespace) -> int:
    mod = read_model(options.model, options.limits)
    inputs = _inputs(mod)
    partitioned = partition(
        mod, options.targets, policy_of(options), prepare=options.prepare, cross_compile=options.cross_compile
    )
    runs = {", ".join(options.targets): _machine(build(partitioned), inputs)}
    if options.host:
        runs["TVM alone"] = _machine(tvm.compile(mod, tvm.target.Target("llvm")), inputs)
    runs |= _with_onnx_runtime(Path(options.model), inputs)
    times = _times(runs, max(options.rounds, 1))
    if options.json:
        print(json.dumps({name: sorted(samples) for name, samples in times.items()}, indent=2))
    else:
        console().print(_table(times))
    return 0


def _inputs(mod: tvm.IRModule) -> list[np.ndarray]:
    """Seeded numbers for each parameter of ``main``."""
    if "main" not in {name.name_hint for name in mod.get_global_vars()}:
        raise ModelError("the module has no function called main to be run")
    random = np.random.default_rng(0)
    return [_numbers(param, random) for param in mod["main"].params]


def _numbers(param: relax.Var, random: np.random.Generator) -> np.ndarray:
    extents = list(param.ty.shape) if isinstance(param.ty, relax.TensorType) and param.ty.shape else None
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        raise ModelError(f"parameter {param.name!r} has no fixed shape, so there is nothing to run it with")
    values = random.uniform(0.0, 1.0, [int(extent) for extent in extents])
    return np.asarray(values).astype(str(param.ty.dtype))


def _machine(executable: Any, inputs: Sequence[np.ndarray]) -> Run:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(value) for value in inputs]
    return lambda: machine["main"](*arguments)


def _with_onnx_runtime(path: Path, inputs: Sequence[np.ndarray]) -> dict[str, Run]:
    """The same file in ONNX Runtime, if that is installed and the file is one that it reads."""
    try:
        import onnxruntime  # noqa: PLC0415 - an extra
    except ImportError:
        return {}
    if path.suffix.lower() != ".onnx":
        return {}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feed = dict(zip(names, inputs, strict=False))
    return {"ONNX Runtime": lambda: session.run(None, feed)} if len(names) == len(inputs) else {}


def _times(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each run, in interleaved rounds behind one that warms up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for number in progress.track(range(rounds + 1)):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                times[name] += [1e3 * (time.perf_counter() - start)] if number else []
    return times


def _table(times: Mapping[str, Sequence[float]]) -> Table:
    first = statistics.median(next(iter(times.values())))
    table = Table(title="Milliseconds", title_justify="left")
    for column in ("", "median", "fastest", "slowest", "times the first"):
        table.add_column(column, justify="right" if column else "left")
    for name, samples in times.items():
        median = statistics.median(samples)
        numbers = (f"{median:.2f}", f"{min(samples):.2f}", f"{max(samples):.2f}", f"{median / first:.2f}")
        table.add_row(Text(name), *numbers)
    return table


COMMAND = Command(
    name="bench",
    help="measure a model with its regions on their targets, beside ONNX Runtime and TVM alone",
    examples=(
        "bench resnet50.onnx --targets dnnl",
        "bench resnet50.onnx --targets dnnl --host --rounds 5 --json",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
