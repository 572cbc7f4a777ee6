"""The engines that are measured: each takes an ONNX model and answers one set of inputs."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar

__all__ = [
    "BF16_ENGINES",
    "FAST_ENGINES",
    "LIBRARY_REGIONS",
    "OURS_IN_BF16",
    "Engine",
    "Setting",
    "tvm_alone",
]


@dataclass(frozen=True, slots=True)
class Setting:
    """What every engine gets.

    Attributes
    ----------
    model
        The network, with its weights.
    inputs
        What is asked, by name.
    threads
        How many threads the engine may use.
    target
        TVM's target for what TVM compiles itself.
    is_quantized
        Whether the network is of int8.
    """

    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    threads: int
    target: str
    is_quantized: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine with a model loaded, ready to run.

    Attributes
    ----------
    run
        Answers the inputs.
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
    feed = dict(setting.inputs)
    return Engine(lambda: session.run(None, feed)[0], time.perf_counter() - began)


def on_onednn(setting: Setting, precision: str = "fp32") -> Engine:
    """The module partitioned for oneDNN; what is left is compiled by TVM."""
    began = time.perf_counter()
    mod = ar.partition(ar.from_onnx(setting.model), ["dnnl"])
    executable = ar.build(mod, setting.target, {"dnnl": {"precision": precision}})
    run = _on_virtual_machine(executable, setting)
    return Engine(run, time.perf_counter() - began, _placement(mod))


def in_regions_of(target: str, setting: Setting) -> Engine:
    """The module partitioned for another library, which runs the regions."""
    began = time.perf_counter()
    mod = ar.partition(ar.from_onnx(setting.model), [target])
    run = _on_virtual_machine(ar.build(mod, setting.target), setting)
    return Engine(run, time.perf_counter() - began, _placement(mod))


def tvm_alone(setting: Setting) -> Engine:
    """The module as it was imported, through TVM's default pipeline."""
    began = time.perf_counter()
    executable = tvm.compile(ar.from_onnx(setting.model), tvm.target.Target(setting.target))
    run = _on_virtual_machine(executable, setting)
    return Engine(run, time.perf_counter() - began)


def open_vino(setting: Setting, precision: str = "f32") -> Engine:
    """OpenVINO, tuned for latency."""
    began = time.perf_counter()
    openvino = import_module("openvino")
    config = {
        "INFERENCE_NUM_THREADS": setting.threads,
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(setting.model.SerializeToString())
        compiled = openvino.Core().compile_model(str(file), "CPU", config)
    arrays = list(setting.inputs.values())
    return Engine(lambda: compiled(arrays)[0], time.perf_counter() - began)


def _on_virtual_machine(executable: Any, setting: Setting) -> Callable[[], np.ndarray]:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(array) for array in setting.inputs.values()]
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


HAS_OPENVINO = find_spec("openvino") is not None

# Every engine that is fast enough to run in each round.
FAST_ENGINES: dict[str, Callable[[Setting], Engine]] = {
    "onnxruntime": onnx_runtime,
    "annotated-region": on_onednn,
    **({"openvino": open_vino} if HAS_OPENVINO else {}),
}
# The same with products of bfloat16.
OURS_IN_BF16: dict[str, Callable[[Setting], Engine]] = {
    "annotated-region-bf16": partial(on_onednn, precision="bf16"),
    "annotated-region-bf16-if-faster": partial(on_onednn, precision="bf16_if_faster"),
}
BF16_ENGINES: dict[str, Callable[[Setting], Engine]] = {
    **OURS_IN_BF16,
    **({"openvino-bf16": partial(open_vino, precision="bf16")} if HAS_OPENVINO else {}),
}
# Regions of the libraries that are engines of their own, by the name of their engine here.
LIBRARY_REGIONS: dict[str, Callable[[Setting], Engine]] = {
    f"annotated-region-{name}": partial(in_regions_of, name)
    for name in ("onnxruntime", "openvino")
    if name in FAST_ENGINES
}
