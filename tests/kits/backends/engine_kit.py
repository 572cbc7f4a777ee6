"""What the tests of targets by way of ONNX build, and how they call it."""

from __future__ import annotations

import threading

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from kits.backends.relax_kit import module, var

__all__ = ["array", "built", "call", "expected_two", "results_of_threads", "two_results"]


def array(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def two_results() -> tvm.IRModule:
    """Two results of different types, over a weight that does not stand in the model itself."""
    x = var("x", (4, 32))

    def make(builder: relax.BlockBuilder) -> tuple[relax.Expr, ...]:
        product = builder.emit(op.matmul(x, relax.const(array(32, 16))))
        return op.nn.relu(product), op.argmax(product, axis=1)

    return module([x], make)


def expected_two(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = data @ array(32, 16)
    return np.maximum(product, 0), product.argmax(1)


def built(target: str, mod: tvm.IRModule, **options: object) -> relax.VirtualMachine:
    partitioned = ar.partition(mod, [target], prepare=False)
    return relax.VirtualMachine(ar.build(partitioned, UNOPTIMIZED, options={target: options}), tvm.cpu())


def call(machine: relax.VirtualMachine, *arrays: np.ndarray) -> list[np.ndarray]:
    result = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def results_of_threads(loaded: tvm.runtime.Module, *shape: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """What two threads get of one library: data and first result, of 20 calls each.

    A virtual machine belongs to one thread, a library to all.
    """
    machines = [relax.VirtualMachine(loaded, tvm.cpu()) for _ in range(2)]
    results: dict[int, list[np.ndarray]] = {}

    def work(seed: int) -> None:
        results[seed] = [call(machines[seed], array(*shape, seed=seed))[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [(array(*shape, seed=seed), found) for seed in range(2) for found in results[seed]]
