"""The engines that are measured: each takes a light model and answers one image."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar

__all__ = ["FAST_ENGINES", "Engine", "Setting", "tvm_alone"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What every engine gets.

    Attributes
    ----------
    model
        The network, with its weights.
    image
        The input, by name.
    threads
        How many threads the engine may use.
    target
        TVM's target for what TVM compiles itself.
    """

    model: onnx.ModelProto
    image: Mapping[str, np.ndarray]
    threads: int
    target: str


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine with a model loaded, ready to run.

    Attributes
    ----------
    run
        Answers the image.
    seconds
        What it took to get ready: reading, partitioning, compiling.
    notes
        What else is worth knowing, such as the number of regions.
    """

    run: Callable[[], np.ndarray]
    seconds: float
    notes: Mapping[str, Any] = field(default_factory=dict)


def onnx_runtime(setting: Setting) -> Engine:
    """ONNX Runtime; all its optimizations are on by default."""
    began = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting.threads
    serialized = setting.model.SerializeToString()
    session = onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    feed = dict(setting.image)
    return Engine(lambda: session.run(None, feed)[0], time.perf_counter() - began)


def on_onednn(setting: Setting) -> Engine:
    """The module partitioned for oneDNN; what is left is compiled by TVM."""
    began = time.perf_counter()
    mod = ar.partition(from_onnx(setting.model), ["dnnl"])
    run = _on_virtual_machine(ar.build(mod, setting.target), setting)
    return Engine(run, time.perf_counter() - began, _placement(mod))


def tvm_alone(setting: Setting) -> Engine:
    """The module as it was imported, through TVM's default pipeline."""
    began = time.perf_counter()
    executable = tvm.compile(from_onnx(setting.model), tvm.target.Target(setting.target))
    run = _on_virtual_machine(executable, setting)
    return Engine(run, time.perf_counter() - began)


def open_vino(setting: Setting) -> Engine:
    """OpenVINO in single precision, tuned for latency."""
    began = time.perf_counter()
    openvino = import_module("openvino")
    config = {
        "INFERENCE_NUM_THREADS": setting.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(setting.model.SerializeToString())
        compiled = openvino.Core().compile_model(str(file), "CPU", config)
    arrays = list(setting.image.values())
    return Engine(lambda: compiled(arrays)[0], time.perf_counter() - began)


def _on_virtual_machine(executable: Any, setting: Setting) -> Callable[[], np.ndarray]:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(array) for array in setting.image.values()]
    return lambda: machine["main"](*arguments).numpy()


def _placement(mod: tvm.IRModule) -> dict[str, Any]:
    """How many external functions there are, and which ops stayed on the host."""
    functions = [mod[name] for name in mod.get_global_vars()]
    external = [function for function in functions if function.attrs and "Codegen" in function.attrs]
    host: Counter[str] = Counter()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            host[expr.op.name] += 1

    relax.analysis.post_order_visit(mod["main"], visit)
    return {"regions": len(external), "host": dict(host)}


# Every engine that is fast enough to run in each round.
FAST_ENGINES: dict[str, Callable[[Setting], Engine]] = {
    "onnxruntime": onnx_runtime,
    "annotated-region": on_onednn,
    **({"openvino": open_vino} if find_spec("openvino") else {}),
}
