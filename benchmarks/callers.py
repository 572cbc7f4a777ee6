"""Sixteen threads call a model at once: requests a second and the 99th percentile, beside ONNX Runtime.

    python benchmarks/callers.py --models squeezenet shufflenet --callers 16 --rounds 6

Each engine has a process of its own, with two threads besides those that call; the engines run in turn for a
second. The count of the threads of each process is printed. Models and libraries are those of `busy.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from busy import Served, kept_folder, prepared
from served_engine import ENGINES

SECONDS = 1.0


def serve(engine: str, folder: Path, callers: int) -> None:
    """Answer each line with the milliseconds of all calls of a second, and the count of threads."""
    runs = ENGINES[engine](folder, 2, callers)
    for run in runs:
        run()
    for _line in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + SECONDS
        threads = [threading.Thread(target=_call, args=(run, end, times)) for run in runs]
        for thread in threads:
            thread.start()
        count = len(os.listdir("/proc/self/task"))
        for thread in threads:
            thread.join()
        print(json.dumps([count, *times]), flush=True)


def _call(run, end: float, times: list[float]) -> None:  # type: ignore[no-untyped-def]
    while time.perf_counter() < end:
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1e3)


def main() -> None:
    """Measure, and print a line for each model."""
    options = parsed()
    if options.serve:
        serve(options.serve, options.folder, options.callers)
        return
    print(
        "| model | engine | calls a second | median ms | 99th percentile ms | threads |\n" + "|---" * 6 + "|"
    )
    for name in options.models:
        folder = prepared(name, options.folder, rebuild=False)
        command = ["--folder", str(folder), "--callers", str(options.callers)]
        engines = {engine: Served([__file__, "--serve", engine, *command]) for engine in options.engines}
        answers: dict[str, list[list[float]]] = {engine: [] for engine in engines}
        for number in range(options.rounds + 1):
            for engine, served in engines.items():
                block = served.run(SECONDS)
                answers[engine] += [block] if number else []
        for engine, blocks in answers.items():
            print(f"| {name} | {engine} | {_line(blocks)} |")
            engines[engine].close()


def _line(blocks: list[list[float]]) -> str:
    times = sorted(time for block in blocks for time in block[1:])
    rate = len(times) / (SECONDS * len(blocks))
    late = times[int(0.99 * len(times))]
    return f"{rate:.0f} | {statistics.median(times):.2f} | {late:.2f} | {blocks[-1][0]:.0f}"


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--models", nargs="+", default=["squeezenet", "shufflenet", "resnet50"], metavar="NAME"
    )
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=6, help="seconds for each engine")
    parser.add_argument("--engines", nargs="+", default=("onnxruntime", "annotated-region"))
    parser.add_argument("--folder", type=Path, default=kept_folder())
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
