"""ResNet-50 from ONNX to oneDNN: who gets what and why, the answer checked, the times beside each other.

    python examples/resnet50.py

What a compile script of your own needs is in `with_annotated_region`; the rest explains, checks and measures.
"""

# ruff: noqa: E402 - the number of threads is read when the libraries are loaded

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

THREADS = os.environ.setdefault("TVM_NUM_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", THREADS)

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.testing.light_models import input_of, light_model

TARGETS = ["tensorrt", "dnnl"]  # the most preferred one first
REFERENCE = "ONNX Runtime"

Run = Callable[[], np.ndarray]


def with_annotated_region(mod: tvm.IRModule, image: np.ndarray) -> Run:
    """Partitioned, built and loaded: this is what a compile script does."""
    partitioned = ar.partition(mod, TARGETS)
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    argument = tvm.runtime.tensor(image)
    return lambda: machine["main"](argument).numpy()


def without_offload(mod: tvm.IRModule, image: np.ndarray) -> Run:
    """TVM's default pipeline alone."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    argument = tvm.runtime.tensor(image)
    return lambda: machine["main"](argument).numpy()


def with_onnx_runtime(model: onnx.ModelProto, image: np.ndarray) -> Run:
    """The same model in ONNX Runtime, on as many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: image}
    return lambda: np.asarray(session.run(None, feed)[0])


def measured(engines: dict[str, Run], rounds: int) -> dict[str, float]:
    """The median of each engine in milliseconds; in rounds, so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in engines.items():
            run()  # not timed: meanwhile the idle threads of the engine before go to sleep
            began = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> int:
    """Explain, build, compare, measure; the exit status says whether the answers agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, help="timed runs of the two fast engines")
    parser.add_argument("--slow-rounds", type=int, default=1, help="timed runs of TVM alone")
    options = parser.parse_args()

    model = light_model("resnet50")
    (image,) = input_of(model).values()
    mod = ar.from_onnx(model)

    print(f"ResNet-50 for {' and '.join(TARGETS)}, who gets what:\n")
    print(ar.explain(mod, TARGETS))

    print("\nBuilding it with annotated-region, without, and loading it into ONNX Runtime ...")
    offloaded, plain = with_annotated_region(mod, image), without_offload(mod, image)
    reference = with_onnx_runtime(model, image)
    answer, expected = offloaded(), reference()
    agrees = np.allclose(answer, expected, rtol=1e-3, atol=1e-4)
    print(
        f"The answer {'equals' if agrees else 'DIFFERS FROM'} ONNX Runtime's: class {answer.argmax()} with "
        f"{answer.max():.4f}, largest difference {np.abs(answer - expected).max():.1e}.\n"
    )

    times = measured({"TVM without offload": plain}, options.slow_rounds)
    times |= measured({"TVM with annotated-region": offloaded, REFERENCE: reference}, options.rounds)
    print(f"{f'Median, {THREADS} threads':<28}{'ms':>9}{'times ' + REFERENCE:>22}")
    for name, milliseconds in times.items():
        print(f"{name:<28}{milliseconds:>9.1f}{milliseconds / times[REFERENCE]:>22.2f}")
    return 0 if agrees else 1


if __name__ == "__main__":
    raise SystemExit(main())
