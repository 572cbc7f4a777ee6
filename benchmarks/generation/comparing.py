"""Runs each engine in a process of its own, in turns, and prints what they took."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from generation.shapes import CAPACITY, GROUP, SHAPES, Engine

__all__ = ["main"]

PROGRAM = Path(__file__).parents[1] / "generate.py"
OURS = "annotated-region"
ENGINES = {
    OURS: ("ours", "write", "annotated_region"),  # names of ours begin with it
    f"{OURS}-int16": ("ours", "write_int16", "annotated_region"),
    f"{OURS}-int8": ("ours", "write_int8", "annotated_region"),
    f"{OURS}-bfloat16": ("ours", "write_bfloat16", "annotated_region"),
    "llama.cpp": ("llama_cpp", "write", "llama_cpp.llama_cpp"),
    "onnxruntime": ("onnx_runtime", "write", "onnxruntime"),
    "openvino": ("openvino", "write", "openvino"),
}
"""The module of an engine, its function that writes files, and what it imports before memory is read."""
WARM = 8  # tokens that are not timed, in each round
SETTLING = 0.3  # seconds in which the idle threads of the engine before stop spinning


@dataclass
class Figures:
    """What one engine took, in seconds."""

    load: float
    prefills: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    peak: float = 0.0  # GB, beside what the imported libraries took before


class Served:
    """An engine in a process of its own, which does one thing at a time, when it is told."""

    def __init__(self, name: str, python: str, folder: Path, options: argparse.Namespace) -> None:
        command = [python, str(PROGRAM), "--size", options.size, "--bits", str(options.bits)]
        command += ["--folder", str(folder)]
        folder.mkdir()
        subprocess.run([*command, "--write", name], check=False, stdout=subprocess.DEVNULL)
        command += ["--serve", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self._answer()
        self.figures = Figures(float(answer[0])) if answer else None

    def run(self, prompt: int, tokens: int) -> None:
        """One round; an engine whose process ends in it has no figures any more."""
        if self.figures is None:
            return
        time.sleep(SETTLING)
        answer = self.ask("run", prompt, tokens)
        if not answer:
            self.figures = None
            return
        prefill, *steps = answer
        self.figures.prefills.append(prefill)
        self.figures.steps += steps

    def end(self) -> None:
        """Let the process go."""
        if self.figures is not None:
            (self.figures.peak,) = self.ask("end")
        self.process.communicate()

    @property
    def fate(self) -> str:
        """Why there are no figures."""
        code = self.process.returncode
        return "absent" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def ask(self, *words: object) -> list[float]:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> list[float]:
        """The next line of figures; nothing if the process has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("figures "):
                found: list[float] = json.loads(line.removeprefix("figures "))
                return found
        return []


def write(name: str, folder: Path, size: str, bits: int) -> None:
    """Write the files that `serve` loads."""
    module, function, _library = ENGINES[name]
    getattr(importlib.import_module(f"generation.{module}"), function)(folder, size, bits)


def serve(name: str, folder: Path, size: str, bits: int) -> None:
    """The other side of `Served`."""
    module, _function, library = ENGINES[name]
    importlib.import_module(library)
    load = importlib.import_module(f"generation.{module}").load
    before, begin = _memory("VmRSS"), time.perf_counter()
    engine: Engine = load(folder, size, bits)
    _tell([time.perf_counter() - begin])
    for line in sys.stdin:
        word, *numbers = line.split()
        _tell([_memory("VmHWM") - before] if word == "end" else _round(engine, *map(int, numbers)))


def _round(engine: Engine, prompt: int, tokens: int) -> list[float]:
    """The seconds of a prompt, and of each token behind those that are not timed."""
    begin = time.perf_counter()
    token = engine.prefill([1 + index % 1000 for index in range(prompt)])
    seconds = [time.perf_counter() - begin]
    for _ in range(WARM + tokens):
        begin = time.perf_counter()
        token = engine.decode(token)
        seconds.append(time.perf_counter() - begin)
    return [seconds[0], *seconds[1 + WARM :]]


def _tell(figures: list[float]) -> None:
    print("\nfigures", json.dumps(figures), flush=True)


def _memory(kind: str) -> float:
    """GB of the process, pages of mapped files included: now (``VmRSS``), or at most (``VmHWM``)."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) / 1e6
    return 0.0


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="tokens a second of a Llama, ours beside others")
    parser.add_argument("--size", choices=SHAPES, default="0.5B")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--tokens", type=int, default=32, help="that are timed in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--write", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prompt + WARM + options.tokens > CAPACITY:
        parser.error(f"there is memory for {CAPACITY} tokens")
    if options.rounds < 2:
        parser.error("one round has no spread; give at least 2")
    if options.write:
        write(options.write, options.folder, options.size, options.bits)
    elif options.serve:
        serve(options.serve, options.folder, options.size, options.bits)
    else:
        with tempfile.TemporaryDirectory() as folder:
            _compare(Path(folder), options)


def _compare(folder: Path, options: argparse.Namespace) -> None:
    from generation.reading import PlainLoop  # noqa: PLC0415 - needs TVM, which the peers' interpreter may lack

    python = {
        name: sys.executable if name.startswith(OURS) else options.peer_python for name in options.engines
    }
    served = {name: Served(name, python[name], folder / name, options) for name in options.engines}
    size = _bytes_of_token(options)
    loop = PlainLoop(int(size), int(os.environ.get("OMP_NUM_THREADS", "2")))
    rates = []
    for _ in range(options.rounds):
        for engine in served.values():
            engine.run(options.prompt, options.tokens)
        time.sleep(SETTLING)
        rates += [loop.rate() for _ in range(5)]
    for engine in served.values():
        engine.end()
    _print(options, served, size, rates)


def _bytes_of_token(options: argparse.Namespace) -> float:
    """What our engine reads for a middle token: weights, scales of two bytes, keys and values of float32."""
    filled: float = options.prompt + WARM + options.tokens / 2
    return _bytes_of_weights(options) + 4 * SHAPES[options.size].row * filled


def _bytes_of_weights(options: argparse.Namespace) -> float:
    bits: int = options.bits
    return SHAPES[options.size].weights * (bits + 16 / GROUP) / 8


def _bytes_held(options: argparse.Namespace) -> float:
    """Weights, the memory for keys and values, and the embeddings, which are float16."""
    shape = SHAPES[options.size]
    return _bytes_of_weights(options) + 4 * shape.row * CAPACITY + 2 * shape.words * shape.width


def _print(options: argparse.Namespace, served: dict[str, Served], size: float, rates: list[float]) -> None:
    print(f"{options.size}, {options.bits} bits, {options.rounds} rounds of {options.tokens} tokens")
    print("| engine | ms a token | tokens a second | ms for the prompt | loaded in s | peak GB |")
    print("|---|---|---|---|---|---|")
    for name, engine in served.items():
        figures = engine.figures
        if figures is None:
            print(f"| {name} | {engine.fate} | | | | |")
            continue
        rate = 1 / statistics.median(figures.steps)
        print(
            f"| {name} | {_spread(figures.steps, 1e3)} | {rate:.1f} | {_spread(figures.prefills, 1e3)} "
            f"| {figures.load:.1f} | {figures.peak:.2f} |"
        )
    print(f"weights, embeddings, keys and values: {_bytes_held(options) / 1e9:.2f} GB")
    print(f"a plain loop: {_spread(rates, 1e-9)} GB/s over {size / 1e6:.0f} MB")
    for name, engine in served.items():
        figures = engine.figures
        if figures is not None and name.startswith(OURS):
            share = size / statistics.median(figures.steps) / statistics.median(rates)
            print(f"{name} reads a token's bytes at {share:.0%} of that")


def _spread(numbers: list[float], factor: float) -> str:
    low, middle, high = (factor * each for each in statistics.quantiles(numbers, n=4))
    return f"{middle:.1f} ({low:.1f}-{high:.1f})"
