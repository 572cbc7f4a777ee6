"""Tuning before or after fusion: convolution, bias and relu in three shapes of ResNet-50.

    python benchmarks/tune_fused.py search --folder found --trials 48 --seeds 0 1 2
    python benchmarks/tune_fused.py time --folder found --rounds 30

Each layer is tuned by TVM's meta-schedule with the same number of trials in two ways:

before fusion   the convolution alone; then bias and relu are added to the kernel that was found. "Fused" lets
                the schedule of the convolution act on the fused function (meta-schedule's anchor trace, which
                inlines bias and relu or puts them behind the convolution's loops); "apart" runs the tuned
                convolution, then bias and relu as a second kernel, in parallel and vectorized.
after fusion    the function that `annotated_region` extracts: all three ops in one.

The search is meta-schedule's own, evolutionary, with a
smaller population; its cost model is left out, as it guesses at random up to the first hundred trials anyway.
A search follows what it measures on a machine that others use as well, so the same seed does not always find
the same kernel. What was found is kept as libraries and timed later, all of it in interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from in_process import InProcessBuilder, InProcessRunner
from tvm import relax
from tvm.s_tir import Schedule, meta_schedule
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.trace_apply import schedule_using_anchor_trace
from tvm.target import Target

import annotated_region as ar

UNTUNED, FUSED, APART, AFTER = "untuned", "before, fused", "before, apart", "after"
WAYS = (FUSED, APART, AFTER)
MILLISECONDS_A_ROUND = 20.0


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of ResNet-50 with its bias and relu; stride 1, one image."""

    name: str
    channels: int
    filters: int
    size: int
    kernel: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the image, the weights, the bias and the result."""
        return {
            "x": (1, self.channels, self.size, self.size),
            "w": (self.filters, self.channels, self.kernel, self.kernel),
            "b": (1, self.filters, 1, 1),
            "y": (1, self.filters, self.size, self.size),
        }


LAYERS = (
    Layer("1x1, 64 to 256, 56x56", 64, 256, 56, 1),
    Layer("3x3, 64 to 64, 56x56", 64, 64, 56, 3),
    Layer("3x3, 256 to 256, 14x14", 256, 256, 14, 3),
)


def main() -> int:
    """Search, or time what a search found."""
    options = parsed()
    if options.command == "search":
        search(options.folder, options.trials, options.seeds, Target(json.loads(options.target)))
    else:
        print(table(timed(options.folder, options.rounds), options.folder))
    return 0


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    searching = commands.add_parser("search", help="tune, and keep what was found")
    searching.add_argument("--trials", type=int, default=48, help="for each way and seed")
    searching.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    searching.add_argument("--target", default=json.dumps(this_machine()), help="TVM's target as JSON")
    timing = commands.add_parser("time", help="time what was found")
    timing.add_argument("--rounds", type=int, default=30, help="interleaved rounds")
    for command in (searching, timing):
        command.add_argument("--folder", type=Path, required=True, help="of what was found")
    return parser.parse_args()


def this_machine() -> dict[str, str | int]:
    """A target for one core of this processor: what runs beside the search then disturbs it least."""
    processor = tvm.get_global_func("target.llvm_get_system_cpu")()
    return {"kind": "llvm", "mcpu": str(processor), "num-cores": 1}


# -- what is tuned


def layer_module(layer: Layer, *, convolution: bool, epilogue: bool) -> tvm.IRModule:
    """The layer, or one of its two halves."""
    types = {name: relax.TensorType(shape, "float32") for name, shape in layer.shapes.items()}
    names = ["x", "w"] if convolution else ["y"]
    params = [relax.Var(name, types[name]) for name in ([*names, "b"] if epilogue else names)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            value = params[0]
            if convolution:
                value = builder.emit(relax.op.nn.conv2d(value, params[1], padding=layer.kernel // 2))
            if epilogue:
                value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(value, params[-1]))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def only_task(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """What there is to tune in a module that fuses into one function."""
    (task,) = ar.to_tuning_tasks(mod, target)
    return task.mod


def best(mod: tvm.IRModule, target: Target, trials: int, seed: int) -> TuningRecord:
    """The best kernel of a search."""
    with tempfile.TemporaryDirectory() as folder:
        database = meta_schedule.tune_tir(
            mod,
            target,
            folder,
            trials,
            num_trials_per_iter=16,
            strategy=meta_schedule.search_strategy.EvolutionarySearch(population_size=128),
            builder=InProcessBuilder(),
            runner=InProcessRunner(),
            database="memory",
            cost_model="random",
            num_tuning_cores=1,
            seed=seed,
        )
    return database.query_tuning_record(mod, target, "main")


def scheduled(mod: tvm.IRModule, record: TuningRecord) -> tvm.IRModule:
    """The module under the schedule that was found for it."""
    schedule = Schedule(mod)
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    return schedule.mod


def under_the_schedule_of_its_convolution(
    mod: tvm.IRModule, record: TuningRecord, target: Target
) -> tvm.IRModule:
    """The fused function, scheduled as its convolution was when it stood alone."""
    schedule = Schedule(mod)
    schedule_using_anchor_trace(schedule, record.trace, target)
    return schedule.mod


def vectorized(mod: tvm.IRModule) -> tvm.IRModule:
    """Bias and relu in one loop, in parallel and vectorized."""
    schedule = Schedule(mod)
    summed, clipped = schedule.get_child_blocks(schedule.get_sblock("root"))
    schedule.compute_inline(summed)
    outer, inner = schedule.split(schedule.fuse(*schedule.get_loops(clipped)), [None, 16])
    schedule.parallel(outer)
    schedule.vectorize(inner)
    return schedule.mod


# -- the search


def search(folder: Path, trials: int, seeds: list[int], target: Target) -> None:
    """Tune every layer in both ways with every seed, and keep the kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for layer in LAYERS:
        bare = only_task(layer_module(layer, convolution=True, epilogue=False), target)
        rest = only_task(layer_module(layer, convolution=False, epilogue=True), target)
        whole = only_task(layer_module(layer, convolution=True, epilogue=True), target)
        keep(folder, layer, 0, UNTUNED, {"main": whole}, target)
        for seed in seeds:
            began = time.perf_counter()
            of_bare, of_whole = (best(each, target, trials, seed) for each in (bare, whole))
            joined = under_the_schedule_of_its_convolution(whole, of_bare, target)
            keep(folder, layer, seed, FUSED, {"main": joined}, target)
            apart = {"convolution": scheduled(bare, of_bare), "rest": vectorized(rest)}
            keep(folder, layer, seed, APART, apart, target)
            keep(folder, layer, seed, AFTER, {"main": scheduled(whole, of_whole)}, target)
            searched = {
                "bare": float(of_bare.run_secs[0]) * 1e3,
                "after": float(of_whole.run_secs[0]) * 1e3,
                "seconds": time.perf_counter() - began,
            }
            found.append({"layer": layer.name, "seed": seed, **searched})
            print(found[-1], flush=True)
    report = {"trials": trials, "seeds": seeds, "target": str(target), "found": found}
    (folder / "search.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def keep(
    folder: Path, layer: Layer, seed: int, way: str, kernels: Mapping[str, tvm.IRModule], target: Target
) -> None:
    """Build one library of kernels, each of which is the only function of its module."""
    functions = {
        tvm.ir.GlobalVar(name): mod["main"].with_attr("global_symbol", name) for name, mod in kernels.items()
    }
    tvm.compile(tvm.IRModule(functions), target).export_library(str(library(folder, layer, seed, way)))


def library(folder: Path, layer: Layer, seed: int, way: str) -> Path:
    """Where a kernel is kept."""
    return folder / f"{LAYERS.index(layer)}-{seed}-{way.replace(', ', '-')}.so"


# -- the times


def timed(folder: Path, rounds: int) -> dict[tuple[Layer, int, str], float]:
    """Milliseconds of everything that was found: medians over interleaved rounds."""
    seeds = json.loads((folder / "search.json").read_text(encoding="utf-8"))["seeds"]
    runs: dict[tuple[Layer, int, str], Callable[[], None]] = {}
    for layer in LAYERS:
        runs |= {(layer, seed, way): runner(folder, layer, seed, way) for seed in seeds for way in WAYS}
        runs[layer, 0, UNTUNED] = runner(folder, layer, 0, UNTUNED)
    order = list(runs)
    repeats = {key: max(1, int(MILLISECONDS_A_ROUND / once(runs[key], 1))) for key in order}
    times: dict[tuple[Layer, int, str], list[float]] = {key: [] for key in order}
    for number in range(rounds):
        start = number % len(order)
        for key in order[start:] + order[:start]:
            runs[key]()
            times[key].append(once(runs[key], repeats[key]))
    return {key: statistics.median(each) for key, each in times.items()}


def once(run: Callable[[], None], repeats: int) -> float:
    """Milliseconds of one of `repeats` runs."""
    began = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - began) / repeats * 1e3


def runner(folder: Path, layer: Layer, seed: int, way: str) -> Callable[[], None]:
    """What runs a kernel, after it has been seen to compute what it should."""
    loaded = tvm.runtime.load_module(str(library(folder, layer, seed, way)))
    random = np.random.default_rng(0)
    x, w, b, _ = (
        tvm.runtime.tensor(random.uniform(-1, 1, shape).astype("float32")) for shape in layer.shapes.values()
    )
    between, y = (tvm.runtime.tensor(np.zeros(layer.shapes["y"], "float32")) for _ in range(2))
    if way == APART:
        convolution, rest = loaded["convolution"], loaded["rest"]

        def run() -> None:
            convolution(x, w, between)
            rest(between, b, y)
    else:
        kernel = loaded["main"]

        def run() -> None:
            kernel(x, w, b, y)

    run()
    np.testing.assert_allclose(y.numpy(), expected(layer, x.numpy(), w.numpy(), b.numpy()), atol=1e-3)
    return run


def expected(layer: Layer, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the layer computes, by numpy."""
    margin = layer.kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (margin, margin), (margin, margin)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (layer.kernel, layer.kernel), axis=(2, 3))
    convolved = np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return np.asarray(np.maximum(convolved + b, 0))


def table(times: Mapping[tuple[Layer, int, str], float], folder: Path) -> str:
    """Times over the seeds, and how much slower tuning before fusion came out, seed by seed."""
    searched = json.loads((folder / "search.json").read_text(encoding="utf-8"))
    seeds = searched["seeds"]
    lines = [
        f"{searched['trials']} trials, seeds {seeds}, target {searched['target']}, "
        f"TVM_NUM_THREADS={os.environ.get('TVM_NUM_THREADS', 'default')}; "
        "milliseconds and ratios: median (least to greatest of the seeds)",
        "",
        f"| layer | {UNTUNED} | {' | '.join(WAYS)} | fused before / after | apart before / after |",
        "|---|---|---|---|---|---|---|",
    ]
    for layer in LAYERS:
        by_way = {way: [times[layer, seed, way] for seed in seeds] for way in WAYS}
        cells = [f"{times[layer, 0, UNTUNED]:.1f}", *(spread(by_way[way]) for way in WAYS)]
        cells += [
            spread([before / after for before, after in zip(by_way[way], by_way[AFTER], strict=True)])
            for way in (FUSED, APART)
        ]
        lines.append(f"| {layer.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Median, least and greatest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
