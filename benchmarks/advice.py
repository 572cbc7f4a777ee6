"""How well does advice foresee what a rule saves? Rules of a target switched off and on, over networks.

    python benchmarks/advice.py --models squeezenet,gru --rules 6

For each op of a model that the target claims, its rule is replaced by one that declines. Advice then builds
and times the model as it is placed, and as it would be with the ops granted: that is predicted. Measured is
what `partition` makes of the model with the rule off and on, built anew and timed in turn, here.

Times are in microseconds, the least of interleaved rounds; `noise` is how far the minima of every third round
are apart, for both together: what a repetition would differ by. Within 15 % (`ok`) or not (`--`) are the
time before, the time after and the difference, in this order. A difference below the noise of its measurement
cannot be judged (`..`). The last column is the difference that the cost model `RooflineCost` estimates
without running anything.

Run it with nothing beside it: the load average stands behind the name of each model. `--processor-time`
leaves out the time in which other processes had the processor; with one thread, that is what a run takes.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import tvm
from kits.zoo.registry import onnx_network

import annotated_region as ar
from annotated_region.advising.trials import Trials
from annotated_region.compilation.executable import machine_of
from annotated_region.errors import AnnotatedRegionError
from annotated_region.inputs import arguments_for
from annotated_region.targets.rules import rules_of
from annotated_region.testing.light_models import LIGHT_MODELS, light_module
from annotated_region.testing.registry import claim_ops, temporary_registrations

ZOO = ("gpt2_decode", "gru", "mobilenet_v3", "graph_attention", "t5", "swin", "unet", "detr")
OFF = "switched off"
NEAR = 0.15
WARM, LEAST_SECONDS = 8, 0.4  # of untimed runs
SAMPLE = 2e-3  # seconds that a sample repeats a short model for
PATIENCE, FEWEST = 20.0, 3  # seconds after which no further round begins, behind so many rounds

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Times:
    """Seconds before and after, and the noise of their difference."""

    before: float
    after: float
    noise: float

    @property
    def saved(self) -> float:
        return self.before - self.after


@dataclass(frozen=True)
class Row:
    """A rule of a model."""

    op: str
    count: int
    estimate: float
    predicted: Times | str
    measured: Times

    @property
    def is_judged(self) -> bool:
        """Whether more is saved than the noise of measuring it."""
        return abs(self.measured.saved) > self.measured.noise

    def marks(self) -> list[str]:
        """Whether the time before, after and saved was predicted within 15 %."""
        if isinstance(self.predicted, str):
            return ["--"] * 3
        pairs = [(getattr(self.predicted, name), getattr(self.measured, name)) for name in NAMES]
        marks = ["ok" if abs(one - other) <= NEAR * abs(other) else "--" for one, other in pairs]
        return marks if self.is_judged else [*marks[:2], ".."]


NAMES = ("before", "after", "saved")


def main() -> None:
    """Print a table for each model, and the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join((*LIGHT_MODELS, *ZOO)))
    parser.add_argument("--target", default="dnnl")
    parser.add_argument("--rules", type=int, default=99, help="at most so many a model, those of most ops")
    parser.add_argument("--rounds", type=int, default=150, help="of the measured times, if they are short")
    parser.add_argument("--processor-time", action="store_true", help="no time on the wall")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for name in options.models.split(","):
        print(f"\n{name}, load {os.getloadavg()[0]:.1f}", flush=True)
        print(HEADING, flush=True)
        found = []
        for row in rows_of(module_of(name, options.target), options):
            found.append(row)
            print(text_of(row), flush=True)
        print(summary(found), flush=True)
        rows += found
    print(f"\nall models\n{summary(rows)}")


def module_of(name: str, target: str) -> tvm.IRModule:
    """A light model, or the first form of a network of the zoo; prepared."""
    if name in LIGHT_MODELS:
        return ar.passes.PrepareForInference(targets=[target])(light_module(name))
    network = onnx_network(name)
    mod = ar.from_onnx(network.proto(network.forms[0]))
    return ar.passes.PrepareForInference(targets=[target])(mod)


def rows_of(mod: tvm.IRModule, options: argparse.Namespace) -> Iterator[Row]:
    """A row for each rule of the target that claims an op of the model."""
    target = options.target
    (function,) = ar.explain(mod, [target]).functions
    claimed = [op.op for op in function.ops if op.claims.get(target) and op.op in rules_of(target)]
    by_count = sorted(dict.fromkeys(claimed), key=claimed.count, reverse=True)
    with ExitStack() as builds:
        after = run_of(mod, target, builds)
        for op in by_count[: options.rules]:
            yield row_of(mod, target, op, after, options)


def row_of(mod: tvm.IRModule, target: str, op: str, after: Run, options: argparse.Namespace) -> Row:
    """One rule switched off; `after` runs the model with the rule on."""
    clock = time.process_time if options.processor_time else time.perf_counter
    with temporary_registrations(), ExitStack() as builds:
        claim_ops(target, op, answer=OFF)
        trials = Trials([ar.passes.PrepareForInference(targets=[target])(mod)], [target])
        about = [each for each in trials.candidates() if (each[0].op, each[0].reason) == (op, OFF)]
        trial = trials.trial(max(about, key=len))
        ((_number, pair),) = trials.timed([trial], clock)
        before = run_of(mod, target, builds)
        measured = timed(before, after, options.rounds, clock)
    return Row(op, len(trial.declines), trial.seconds_saved, predicted(pair), measured)


def predicted(pair: object) -> Times | str:
    """What `Trials.timed` found."""
    if isinstance(pair, AnnotatedRegionError):
        return f"{type(pair).__name__}: {pair}"
    assert isinstance(pair, tuple)
    before, after = pair
    noise = before.seconds * before.spread + after.seconds * after.spread
    return Times(before.seconds, after.seconds, noise)


def run_of(mod: tvm.IRModule, target: str, builds: ExitStack) -> Run:
    """The model partitioned with the rules as they are, built; run once."""
    machine = builds.enter_context(machine_of(ar.build(ar.partition(mod, [target]))))
    run: Run = partial(machine["main"], *arguments_for(mod["main"]).tensors())
    run()
    return run


def timed(before: Run, after: Run, rounds: int, clock: Clock) -> Times:
    """Both run in turn."""
    for run in (before, after):
        began, count = time.perf_counter(), 0
        while count < WARM or time.perf_counter() - began < LEAST_SECONDS:
            run()
            count += 1
            if time.perf_counter() - began > PATIENCE / 4:
                break
    samples: tuple[list[float], list[float]] = ([], [])
    gc.disable()
    began = time.perf_counter()
    for number in range(rounds):
        if number >= FEWEST and time.perf_counter() - began > PATIENCE:
            break
        for which in (0, 1) if number % 2 else (1, 0):
            samples[which].append(sample((before, after)[which], clock))
    gc.enable()
    noise = sum(map(noise_of, samples))
    return Times(min(samples[0]), min(samples[1]), noise)


def noise_of(samples: Sequence[float]) -> float:
    """How far the minima of every third sample are apart."""
    minima = [min(samples[part::3]) for part in range(3)]
    return max(minima) - min(minima)


def sample(run: Run, clock: Clock) -> float:
    """The mean of a few runs, or of one that is long."""
    began, count = clock(), 0
    while True:
        run()
        count += 1
        elapsed = clock() - began
        if elapsed >= SAMPLE:
            return elapsed / count


HEADING = (
    f"{'rule':32}{'ops':>4}  {'predicted':>10}{'after':>10}{'saved':>10}{'noise':>8}  "
    f"{'measured':>10}{'after':>10}{'saved':>10}{'noise':>8}  within     roofline"
)


def text_of(row: Row) -> str:
    """A line of the table."""
    end = f"  {text_of_times(row.measured)}  {' '.join(row.marks())}  {row.estimate * 1e6:10.0f}"
    start = f"{row.op.removeprefix('relax.'):32}{row.count:4}  "
    if isinstance(row.predicted, str):
        return f"{start}{row.predicted[:38]:38}{end}"
    return f"{start}{text_of_times(row.predicted)}{end}"


def text_of_times(times: Times) -> str:
    """Four numbers."""
    seconds = (times.before, times.after, times.saved)
    return "".join(f"{each * 1e6:10.1f}" for each in seconds) + f"{times.noise * 1e6:8.1f}"


def summary(rows: Sequence[Row]) -> str:
    """How many rows are right, and the correlations of ranks."""
    judged = [row for row in rows if row.is_judged]
    hits = [sum(row.marks()[column] == "ok" for row in rows) for column in range(3)]
    timed_rows = [row for row in rows if isinstance(row.predicted, Times)]
    both = [row for row in timed_rows if row.is_judged]
    return (
        f"{len(rows)} rules: before {hits[0]}, after {hits[1]} within {NEAR:.0%}; saved {hits[2]} of "
        f"{len(judged)} that exceed the noise; {len(rows) - len(timed_rows)} not built by the target\n"
        f"rank correlation {correlation(timed_rows)}, of those that exceed the noise {correlation(both)}"
    )


def correlation(rows: Sequence[Row]) -> str:
    """Spearman's, of the predicted and the measured seconds saved."""
    if len(rows) < 3:
        return "of too few"
    predictions = [row.predicted.saved for row in rows if isinstance(row.predicted, Times)]
    one, other = ranks(predictions), ranks([row.measured.saved for row in rows])
    count = len(rows)
    apart = sum((left - right) ** 2 for left, right in zip(one, other, strict=True))
    return f"{1 - 6 * apart / (count * (count**2 - 1)):.2f} of {count}"


def ranks(values: Sequence[float]) -> list[int]:
    """The place of each value in their order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(number) for number in range(len(values))]


if __name__ == "__main__":
    main()
