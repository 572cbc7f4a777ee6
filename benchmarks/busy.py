"""Fifteen models on a machine that has something else to do, too: annotated-region beside ONNX Runtime.

    python benchmarks/busy.py --models resnet50 shufflenet --loads quiet "1 busy" --json result.json

Each engine has a process of its own and two threads. The engines run in turn for a quarter of a second,
under the same load, and sleep while the others run. A block during which programs that do not belong to the
benchmark took an eighth of a processor is measured again. Read the ratios: the median and the 95th
percentile over those of ONNX Runtime. The libraries are made once and kept in `--folder`; `--rebuild` makes
them anew.

The loads: nothing else; one and two processes that compute without end; one of priority `nice 10`; short
processes one after the other; the engines on one core; the engines in a cgroup with a quota of one core
(``quota``; version 1 of cgroups, for a user who may make one).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from loads import LOADS, Elsewhere, confined, load
from small_models import SMALL_MODELS

SERVER = Path(__file__).parent / "served_engine.py"
LIBRARY = "library.so"
MODELS = (
    "alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512", "bert", "vit", "gpt2", "llama", "convnext", "mobilenet_v2",
)  # fmt: skip
REFERENCE = "onnxruntime"
BLOCK = 0.25  # seconds that an engine runs in a row
FOREIGN = 0.12  # processors that other programs may take
FOREIGN_AND_SHORT = 0.3  # the same where the load is of short programs, which count from their end on
ATTEMPTS = 6  # at a block that nothing else disturbs

Times = dict[str, list[float]]


class Served:
    """An engine that runs in a process of its own."""

    def __init__(self, program: Sequence[str]) -> None:
        command = [sys.executable, "-W", "ignore", *program]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, seconds: float) -> list[float]:
        """The milliseconds of as many runs as fit into some seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        times: list[float] = json.loads(self.process.stdout.readline())
        return times

    def __enter__(self) -> Served:
        return self

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_error: object) -> None:
        self.close()


def main() -> int:
    """Measure what the command line asks for, and print a table."""
    options = parsed()
    report: dict[str, dict[str, Any]] = {}
    for name in options.models:
        report[name] = measured(name, options)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for engine in options.engines[1:]:
        print(table(report, options.loads, options.engines[0], engine))
    return 0


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """For each load and engine the milliseconds (median, mean, 95th percentile, least) and the runs."""
    folder = prepared(name, options.folder, options.rebuild)
    with ExitStack() as stack:
        engines = {
            engine: stack.enter_context(Served([str(SERVER), engine, str(folder), str(options.threads)]))
            for engine in options.engines
        }
        return {loaded: _under(loaded, name, engines, options.rounds) for loaded in options.loads}


def prepared(name: str, kept: Path, rebuild: bool) -> Path:
    """The folder with what the engines load of a model, made if it is not there."""
    folder = kept / name
    if rebuild or not (folder / LIBRARY).exists():
        _say(f"{name}: preparing")
        subprocess.run(
            [sys.executable, "-W", "ignore", str(SERVER), "prepare", name, str(folder)], check=True
        )
    return folder


def kept_folder() -> Path:
    """Where models and libraries are kept, unless the command line says where."""
    return Path(tempfile.gettempdir()) / f"annotated-region-benchmarks-{os.getuid()}"


def _under(loaded: str, name: str, engines: dict[str, Served], rounds: int) -> dict[str, Any]:
    times: Times = {engine: [] for engine in engines}
    order = list(engines)
    processes = [engine.process.pid for engine in engines.values()]
    with confined(loaded, processes), load(loaded) as programs:
        own = [*processes, *programs, os.getpid()]
        most = FOREIGN_AND_SHORT if loaded == "short ones" else FOREIGN
        for number in range(rounds + 1):  # the first round does not count
            _say(f"{name}: {loaded}: round {number} of {rounds}")
            for engine in order[number % len(order) :] + order[: number % len(order)]:
                block = _undisturbed(engines[engine], own, most)
                times[engine] += block if number else []
    return {engine: _figures(times[engine]) for engine in engines}


def _undisturbed(engine: Served, own: Sequence[int], most: float) -> list[float]:
    for _ in range(ATTEMPTS):
        elsewhere = Elsewhere(own)
        block = engine.run(BLOCK)
        if elsewhere.processors() <= most:
            break
    return block


def _figures(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "mean": statistics.fmean(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "least": ordered[0],
        "runs": len(ordered),
    }


def table(report: dict[str, dict[str, Any]], loads: Sequence[str], reference: str, engine: str) -> str:
    """Medians and, in parentheses, 95th percentiles over the reference's; geometric means below."""
    lines = [
        f"{engine} over {reference}: median (95th percentile)",
        "| model | " + " | ".join(loads) + " |",
        "|---" * (len(loads) + 1) + "|",
    ]
    lines += [
        f"| {name} | " + " | ".join(_cell(under[loaded], reference, engine) for loaded in loads) + " |"
        for name, under in report.items()
    ]
    for title, what in (("", "median"), (" of mean times", "mean")):
        means = [
            _mean([_ratio(under[loaded], reference, engine, what) for under in report.values()])
            for loaded in loads
        ]
        lines.append(f"| geometric mean{title} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def _cell(under: dict[str, Any], reference: str, engine: str) -> str:
    ratios = [_ratio(under, reference, engine, what) for what in ("median", "p95")]
    return (
        f"{ratios[0]:.2f} ({ratios[1]:.2f}) [{under[engine]['median']:.2f}/{under[reference]['median']:.2f}]"
    )


def _ratio(under: dict[str, Any], reference: str, engine: str, what: str) -> float:
    return float(under[engine][what] / under[reference][what])


def _mean(ratios: Sequence[float]) -> float:
    return statistics.geometric_mean(ratios)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{what:70}", end="", file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument(
        "--small", dest="models", action="store_const", const=SMALL_MODELS, help="ten small models"
    )
    parser.add_argument(
        "--loads", nargs="+", default=LOADS[:6], choices=LOADS, metavar="LOAD", help="of: " + ", ".join(LOADS)
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="blocks of a quarter of a second for each engine"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of every engine")
    parser.add_argument(
        "--engines", nargs="+", default=(REFERENCE, "annotated-region"), help="the reference first"
    )
    parser.add_argument(
        "--folder", type=Path, default=kept_folder(), help="where models and libraries are kept"
    )
    parser.add_argument("--rebuild", action="store_true", help="make models and libraries anew")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
