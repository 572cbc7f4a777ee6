"""From an ONNX file to the first answer in a new process: how long it takes, how many compilers it starts.

    python benchmarks/first_answer.py [--model resnet50] [--cut relu] [--rounds 3]

Each row is of new processes with a cache folder of the benchmark's own: empty, full, and full with
other weights in the model. `--cut relu` bans an op from oneDNN, so that the model falls into many
regions; one more row is of the model with one op replaced. ONNX Runtime and OpenVINO run by turns with
the full caches, where they are installed. In seconds, medians over the rounds (the empty folder has one),
and in parentheses the least of the last column; `compilers` is how often one was started to compile.
Partition holds the import of what the package needs for it. Each process writes a new library: to replace
one of a hundred megabytes takes ext4 another tenth of a second.
"""

# ruff: noqa: PLC0415 - libraries are imported where the time of importing them is taken

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

THREADS = os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TVM_NUM_THREADS", THREADS)

Row = dict[str, float]


class Stages:
    """The seconds of each stage of this process, and the compilations that it started."""

    def __init__(self) -> None:
        self.row: Row = {"compilers": 0}
        self.since = time.perf_counter()
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        words = arguments[1] if event == "subprocess.Popen" else ()
        self.row["compilers"] += isinstance(words, list) and "-c" in words

    def end(self, name: str) -> None:
        """A stage ends here, and the next one begins."""
        now = time.perf_counter()
        self.row[name] = now - self.since
        self.since = now


def with_annotated_region(model: str, cut: str) -> Row:
    """Read, partitioned, built, linked, loaded and run once."""
    stages = Stages()
    import tvm
    from tvm import relax

    stages.end("TVM")
    import annotated_region as ar

    mod = ar.from_onnx(model)
    stages.end("read")
    partitioned = ar.partition(mod, ["dnnl"], bans={f"relax.nn.{cut}": ["dnnl"]} if cut else {})
    stages.end("partition")
    built = ar.build(partitioned)
    stages.end("build")
    built.export_library(f"{model}.so")
    stages.end("link")
    machine = relax.VirtualMachine(tvm.runtime.load_module(f"{model}.so"), tvm.cpu())
    shape = [int(extent) for extent in mod["main"].params[0].ty.shape.values]
    machine["main"](tvm.runtime.tensor(np.ones(shape, "float32")))
    stages.end("first run")
    ours = ("partition", "build", "link", "first run")
    return {**stages.row, "of these ours": sum(stages.row[name] for name in ours)}


def with_onnx_runtime(model: str, _cut: str) -> Row:
    """The session made, and run once."""
    stages = Stages()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    data = session.get_inputs()[0]
    session.run(None, {data.name: np.ones(data.shape, "float32")})
    stages.end("all")
    return stages.row


def with_openvino(model: str, _cut: str) -> Row:
    """Compiled, and run once."""
    stages = Stages()
    import openvino

    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": THREADS})
    compiled([np.ones(compiled.inputs[0].shape, "float32")])
    stages.end("all")
    return stages.row


ROADS: dict[str, Callable[[str, str], Row]] = {
    "annotated_region": with_annotated_region,
    "onnxruntime": with_onnx_runtime,
    "openvino": with_openvino,
}


def measured(road: str, model: Path, cut: str, cache: Path) -> Row:
    """What a new process measures."""
    command = [sys.executable, __file__, "--road", road, "--model", str(model), "--cut", cut]
    # Python, too, has a cache, of its compiled modules, and is usually not told to leave it alone.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["XDG_CACHE_HOME"] = str(cache)
    Path(f"{model}.so").unlink(missing_ok=True)
    row: Row = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    return row


def rows_of(name: str, cut: str, rounds: int, folder: Path) -> Iterator[tuple[str, list[Row]]]:
    """Each row with its name, as it is measured."""
    import onnx

    from annotated_region.testing.light_models import light_model

    files = {each: folder / f"{each}.onnx" for each in ("model", "other_weights", "edited")}
    model = light_model(name)
    onnx.save(model, files["model"])
    onnx.save(light_model(name, seed=1), files["other_weights"])
    sums = [node for node in model.graph.node if node.op_type in ("Sum", "Add") and len(node.input) == 2]
    if sums:
        sums[len(sums) // 2].op_type = "Sub"
        onnx.save(model, files["edited"])

    def row(file: str, road: str = "annotated_region") -> Row:
        return measured(road, files[file], cut, folder / "cache")

    yield "empty caches", [row("model")]
    roads = ["annotated_region", *(road for road in ("onnxruntime", "openvino") if find_spec(road))]
    turns = [{road: row("model", road) for road in roads} for _ in range(rounds)]
    for road in roads:
        yield "full caches" if road == "annotated_region" else road, [turn[road] for turn in turns]
    yield "other weights", [row("other_weights")]
    if cut and sums:
        yield "one op edited", [row("edited")]


def text_of(rows: list[Row]) -> str:
    """The medians of the columns, and the least of the last."""
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    least = min(row[list(medians)[-1]] for row in rows)
    return "  ".join(f"{name} {value:.3g}" for name, value in medians.items()) + f" ({least:.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", help="one of the nine models of the onnx package")
    parser.add_argument("--cut", default="", help="an op of relax.nn that stays on the host")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--road", choices=ROADS, help="what a process that this one starts measures")
    given = parser.parse_args()
    if given.road:
        print(json.dumps(ROADS[given.road](given.model, given.cut)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in rows_of(given.model, given.cut, given.rounds, Path(folder)):
            print(f"{name:14}", text_of(rows), flush=True)


if __name__ == "__main__":
    main()
