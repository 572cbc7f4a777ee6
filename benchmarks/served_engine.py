"""An engine in a process of its own, which runs when it is told to and sleeps otherwise.

    python benchmarks/served_engine.py ENGINE FOLDER THREADS
    python benchmarks/served_engine.py prepare MODEL FOLDER

The process reads from its standard input how many seconds to run, and answers with a line of JSON: the
milliseconds of each run. Preparing writes into the folder what the engines load: the ONNX model, its inputs,
and our library.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ENGINES", "FILES", "answering", "prepare"]

FILES = ("model.onnx", "inputs.npz", "library.so")


def prepare(name: str, folder: Path) -> None:
    """Write the files of a model."""
    import onnx  # noqa: PLC0415 - the engines that are timed load none of these
    from kits.family_models import inputs_of  # noqa: PLC0415
    from side_by_side import setting_of  # noqa: PLC0415
    from small_models import SMALL_MODELS, small_model  # noqa: PLC0415
    from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415

    import annotated_region as ar  # noqa: PLC0415

    if name in SMALL_MODELS:
        model = small_model(name)
        inputs: Mapping[str, np.ndarray] = inputs_of(model)
    else:
        setting = setting_of(name, 0, "llvm")
        model, inputs = setting.model, setting.inputs
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / FILES[0])
    np.savez(folder / FILES[1], allow_pickle=False, **inputs)
    ar.build(ar.partition(from_onnx(model), ["dnnl"])).export_library(str(folder / FILES[2]))


def _onnx_runtime(folder: Path, threads: int, callers: int) -> list[Callable[[], Any]]:
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / FILES[0], options, providers=["CPUExecutionProvider"])
    feed = dict(np.load(folder / FILES[1]))
    return [lambda: session.run(None, feed)[0]] * callers


def _ours(folder: Path, threads: int, callers: int) -> list[Callable[[], Any]]:
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import tvm  # noqa: PLC0415
    from tvm import relax  # noqa: PLC0415

    library = tvm.runtime.load_module(str(folder / FILES[2]))
    inputs = np.load(folder / FILES[1])
    arguments = [tvm.runtime.tensor(inputs[name]) for name in inputs.files]
    mains = [relax.VirtualMachine(library, tvm.cpu())["main"] for _ in range(callers)]
    return [partial(_answer, main, arguments) for main in mains]


def _answer(main: Callable[..., Any], arguments: list[Any]) -> Any:
    return main(*arguments).numpy()


def _open_vino(folder: Path, threads: int, callers: int) -> list[Callable[[], Any]]:
    openvino = import_module("openvino")

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(str(folder / FILES[0]), "CPU", config)
    arrays = list(dict(np.load(folder / FILES[1])).values())
    return [lambda: compiled(arrays)[0]] * callers


# Each takes a folder and the counts of its threads and callers, and answers a function for each caller.
ENGINES: dict[str, Callable[[Path, int, int], list[Callable[[], Any]]]] = {
    "annotated-region": _ours,
    "onnxruntime": _onnx_runtime,
    "openvino": _open_vino,
}


def answering(run: Callable[[], Any]) -> None:
    """Run for as long as each line says, and answer with the times."""
    for line in sys.stdin:
        times: list[float] = []
        gc.disable()
        end = time.perf_counter() + float(line)
        while not times or time.perf_counter() < end:
            began = time.perf_counter()
            run()
            times.append(round((time.perf_counter() - began) * 1e3, 4))
        gc.enable()
        print(json.dumps(times), flush=True)


def main() -> None:
    """Prepare, or serve."""
    what, place, last = sys.argv[1:]
    if what == "prepare":
        prepare(place, Path(last))
        return
    [run] = ENGINES[what](Path(place), int(last), 1)
    for _ in range(3):
        run()
    answering(run)


if __name__ == "__main__":
    main()
