"""Hunts for wrong answers, hangs and crashes: python tests/hunt/hunt.py --target dnnl --graphs 200000.

Seeds are taken in chunks, each by a process of its own, some with several threads. What has been done is kept
in a file (``--state``), with which a hunt that was interrupted goes on. The summary counts all chunks of the
file that belong to the range.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, BinaryIO

from kits.dense_graphs.recipe import Recipe
from kits.hunt.checking import Kind
from kits.hunt.engines import TARGETS

CHUNK = 2000
SILENCE = 180
"""Seconds without a line after which a process hangs outside of Python; none count while it is stopped."""

LAST_WORDS = 4000
"""How many characters of its errors are kept of a process that died."""

THREADS = (1, 2, 1, 3)
"""With how many threads chunks compute, in turn."""

WORKER = Path(__file__).with_name("hunting_worker.py")


@dataclass(slots=True)
class Chunk:
    """What became of the graphs of a few seeds."""

    target: str
    first: int
    count: int
    counts: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def note(self, told: dict[str, Any], seed: int) -> int:
        """Note a line of a process; the graph that it is at."""
        if "became" in told:
            self.counts[told["became"]] = self.counts.get(told["became"], 0) + 1
        for form in told.get("left out", ()):
            self.left_out[form] = self.left_out.get(form, 0) + 1
        if "kind" in told:
            self.failures.append(told)
        return int(told.get("seed", seed))

    def add(self, kind: Kind, seed: int, text: str) -> None:
        """Note a graph that the process did not survive."""
        self.note({"became": kind.value}, seed)
        self.failures.append({"failed": seed, "kind": kind.value, "text": text, "recipe": None})


def run_chunk(target: str, first: int, count: int) -> Chunk:
    """All graphs of a chunk; behind one that ends the process, a new process goes on."""
    chunk = Chunk(target, first, count)
    at = first
    while at < first + count:
        at = _run_part(chunk, at)
    return chunk


def _run_part(chunk: Chunk, first: int) -> int:
    """Graphs from `first` on until the end, or until the process dies; the next seed."""
    count = chunk.first + chunk.count - first
    command = [sys.executable, str(WORKER), chunk.target, str(first), str(count)]
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(chunk)
        ) as process,
    ):
        seed, is_silent = _followed(chunk, process, first)
        if is_silent:
            _end(process)
        status = process.wait()
        if status == 0:
            return chunk.first + chunk.count
        text = f"exit status {status}\n{_last_words(errors)}"
    chunk.add(Kind.HANG if is_silent else Kind.CRASH, seed, text)
    return seed + 1


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that is silent, behind the stacks of its threads."""
    process.send_signal(signal.SIGUSR1)
    time.sleep(1)
    process.kill()


def _last_words(errors: BinaryIO) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - LAST_WORDS))
    return errors.read().decode(errors="replace")


def _followed(chunk: Chunk, process: subprocess.Popen[str], seed: int) -> tuple[int, bool]:
    """Note what a process tells; the graph that it was at last at, and whether it has fallen silent."""
    lines: Queue[str | None] = Queue()
    reader = Thread(target=pump, args=(process, lines), daemon=True)
    reader.start()
    silence = 0
    while silence < SILENCE:
        try:
            line = lines.get(timeout=1)
        except Empty:
            silence += not _is_stopped(process.pid)
            continue
        if line is None:
            reader.join()
            return seed, False
        seed, silence = chunk.note(json.loads(line), seed), 0
    return seed, True


def _is_stopped(process: int) -> bool:
    """Whether a process waits for SIGCONT; if this one has to as well, a second passes for it at most."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    return fields.split()[0] == "T"


def _environment(chunk: Chunk) -> dict[str, str]:
    threads = str(THREADS[chunk.first // CHUNK % len(THREADS)])
    return {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "passive",
        "TVM_NUM_THREADS": threads,
    }


def pump(process: subprocess.Popen[str], lines: Queue[str | None]) -> None:
    """Hand on what a process says, and None behind it."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def known_chunks(state: Path | None) -> Iterator[Chunk]:
    """What an earlier run has done."""
    if state is not None and state.exists():
        for line in state.read_text(encoding="utf-8").splitlines():
            yield Chunk(**json.loads(line))


def hunted(target: str, first: int, graphs: int, processes: int, state: Path | None) -> list[Chunk]:
    """The chunks of a range of seeds, those that are missing run now."""
    wanted = {begin: min(CHUNK, first + graphs - begin) for begin in range(first, first + graphs, CHUNK)}
    done = {
        chunk.first: chunk
        for chunk in known_chunks(state)
        if chunk.target == target and wanted.get(chunk.first) == chunk.count
    }
    begin = time.monotonic()
    with ThreadPoolExecutor(processes) as pool:
        missing = [(at, count) for at, count in wanted.items() if at not in done]
        running = [pool.submit(run_chunk, target, at, count) for at, count in missing]
        for future in as_completed(running):
            chunk = future.result()
            done[chunk.first] = chunk
            _keep(chunk, state)
            _tell(chunk, len(done) * CHUNK, graphs, time.monotonic() - begin)
    return [done[at] for at in sorted(done)]


def _keep(chunk: Chunk, state: Path | None) -> None:
    if state is not None:
        with state.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(chunk)) + "\n")


def _tell(chunk: Chunk, done: int, graphs: int, seconds: float) -> None:
    for failure in chunk.failures:
        if "shrunk" in failure or failure["recipe"] is None:
            number = failure.get("shrunk", failure.get("failed"))
            print(f"--- seed {number}: {failure['kind']}: {failure['text']}")
            print(failure["recipe"] and f"{Recipe.from_json(failure['recipe'])}\n{failure['recipe']}")
    print(f"{min(done, graphs)} of {graphs} graphs, {seconds:.0f} s", file=sys.stderr, flush=True)
    sys.stdout.flush()


def summary(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Counts of all chunks, and the failures that differ, each with its smallest graph."""
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    distinct: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        counts.update(chunk.counts)
        left_out.update(chunk.left_out)
        for failure in chunk.failures:
            if "shrunk" in failure:
                skeleton = f"{failure['kind']} {Recipe.from_json(failure['recipe']).skeleton}"
                distinct.setdefault(skeleton, failure)
    first = min((f["failed"] for chunk in chunks for f in chunk.failures if "failed" in f), default=None)
    return {
        "graphs": sum(chunk.count for chunk in chunks),
        "counts": dict(counts),
        "left out": dict(left_out),
        "first failing seed": first,
        "distinct failures": list(distinct.values()),
    }


def main() -> int:
    """Hunt; the result is the number of graphs that fail, 99 at most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="dnnl", choices=TARGETS)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--state", type=Path, help="where what has been done is kept")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args()
    chunks = hunted(options.target, options.seed, options.graphs, options.processes, options.state)
    found = summary(chunks)
    if options.json:
        print(json.dumps(found))
    else:
        print({name: value for name, value in found.items() if name != "distinct failures"})
        print(f"{len(found['distinct failures'])} distinct failures")
    failed: int = sum(found["counts"].get(kind.value, 0) for kind in Kind if kind.is_failure)
    return min(99, failed)


if __name__ == "__main__":
    raise SystemExit(main())
