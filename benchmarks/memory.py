"""Peak memory of a process that loads a model and answers: ours beside ONNX Runtime and OpenVINO.

    python benchmarks/memory.py
    python benchmarks/memory.py resnet50 vgg19 bert --bf16

Every engine runs in processes of its own, from a file that was written before: an exported library, or the
ONNX model. Measured is the largest resident set after loading and three answers, less what the process had
when its libraries were imported (TVM's Python package alone takes more than all of ONNX Runtime's); the
figure is the median of three processes. Without names, all models of ``inference.py`` are measured.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

_HERE = Path(__file__).parent
RUNS = 3
PROCESSES = 3
NAMES = """
from annotated_region.testing import light_models
from kits import family_models
print(*light_models.LIGHT_MODELS, *family_models.FAMILIES)
"""
Inputs = Mapping[str, np.ndarray]


def main() -> int:
    """Print a line for each model; a process with ``--engine`` is one that is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="measure products of bfloat16, too")
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(_megabytes(options.engine, options.folder, options.threads)))
        return 0
    engines = [engine for engine in ENGINES if options.bf16 or not engine.endswith("-bf16")]
    for name in options.models or _all_models():
        with tempfile.TemporaryDirectory() as folder:
            _write(name, Path(folder))
            figures = {engine: _measured(engine, Path(folder), options.threads) for engine in engines}
        reference = figures["onnxruntime"]
        columns = (f"{engine} {peak:.0f} MB ({peak / reference:.2f})" for engine, peak in figures.items())
        print(f"{name:<14}{', '.join(columns)}", flush=True)
    return 0


def _all_models() -> list[str]:
    """Asked of another process: a child counts what its parent has in memory as its own peak."""
    done = subprocess.run(
        [sys.executable, "-c", NAMES], check=True, capture_output=True, text=True, cwd=_HERE
    )
    return done.stdout.split()


def _write(name: str, folder: Path) -> None:
    """The model, its inputs and its library, made in a process of their own."""
    code = "import memory, pathlib, sys; memory.prepare(sys.argv[1], pathlib.Path(sys.argv[2]))"
    environment = {**os.environ, "PYTHONPATH": str(_HERE)}
    subprocess.run([sys.executable, "-c", code, name, str(folder)], check=True, env=environment)


def prepare(name: str, folder: Path) -> None:
    """Write ``model.onnx``, ``inputs.npz`` and a library for each precision into a folder."""
    from kits import family_models  # noqa: PLC0415
    from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415

    import annotated_region as ar  # noqa: PLC0415  (TVM must not be loaded where others are measured)
    from annotated_region.testing import light_models  # noqa: PLC0415

    if name in light_models.LIGHT_MODELS:
        model = light_models.light_model(name)
        inputs = light_models.input_of(model)
    else:
        model = family_models.family_model(name)
        inputs = family_models.inputs_of(model)
    onnx.save(model, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    module = ar.partition(from_onnx(model), ["dnnl"])
    for precision in ("fp32", "bf16"):
        library = ar.build(module, options={"dnnl": {"precision": precision}})
        library.export_library(str(folder / f"{precision}.so"))


def _measured(engine: str, folder: Path, threads: int) -> float:
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    words = [sys.executable, __file__, "-", "--engine", engine, "--folder", str(folder)]
    words += ["--threads", str(threads)]
    run = partial(subprocess.run, words, check=True, capture_output=True, text=True, env=environment)
    return statistics.median(float(json.loads(run().stdout.splitlines()[-1])) for _ in range(PROCESSES))


def _megabytes(engine: str, folder: Path, threads: int) -> float:
    """The peak of this process, less what it had before the model was loaded."""
    with np.load(folder / "inputs.npz") as stored:
        inputs = {name: stored[name] for name in stored.files}
    load = ENGINES[engine]()
    before = _peak()
    run = load(folder, inputs, threads)
    for _ in range(RUNS):
        run()
    return _peak() - before


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


Run = Callable[[], Any]
Load = Callable[[Path, Inputs, int], Run]


def _onnx_runtime() -> Load:
    onnxruntime = importlib.import_module("onnxruntime")

    def load(folder: Path, inputs: Inputs, threads: int) -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        file = str(folder / "model.onnx")
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, dict(inputs))

    return load


def _ours(precision: str = "fp32") -> Load:
    tvm = importlib.import_module("tvm")
    relax = importlib.import_module("tvm.relax")
    installation = importlib.import_module("annotated_region.backends.dnnl.installation")
    ctypes.CDLL(str(installation.onednn()))  # the peers' libraries are loaded before the model, too

    def load(folder: Path, inputs: Inputs, _threads: int) -> Run:
        library = tvm.runtime.load_module(str(folder / f"{precision}.so"))
        machine = relax.VirtualMachine(library, tvm.cpu())
        arguments = [tvm.runtime.tensor(array) for array in inputs.values()]
        return lambda: machine["main"](*arguments)

    return load


def _openvino(precision: str = "f32") -> Load:
    openvino = importlib.import_module("openvino")

    def load(folder: Path, inputs: Inputs, threads: int) -> Run:
        config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision}
        compiled = openvino.Core().compile_model(str(folder / "model.onnx"), "CPU", config)
        return lambda: compiled(list(inputs.values()))

    return load


ENGINES: dict[str, Callable[[], Load]] = {
    "onnxruntime": _onnx_runtime,
    "annotated-region": _ours,
    "annotated-region-bf16": partial(_ours, "bf16"),
    **({"openvino": _openvino, "openvino-bf16": partial(_openvino, "bf16")} if find_spec("openvino") else {}),
}

if __name__ == "__main__":
    raise SystemExit(main())
