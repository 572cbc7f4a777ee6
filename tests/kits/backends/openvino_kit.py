"""What the tests of the openvino backend build, and how they call it."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from kits.backends.relax_kit import module, var

__all__ = ["array", "built", "call", "expected_two", "two_results"]


def array(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def two_results():
    """Two results of different types, over a weight that does not stand in the model itself."""
    x = var("x", (4, 32))

    def make(builder):
        product = builder.emit(op.matmul(x, relax.const(array(32, 16))))
        return op.nn.relu(product), op.argmax(product, axis=1)

    return module([x], make)


def expected_two(data):
    product = data @ array(32, 16)
    return np.maximum(product, 0), product.argmax(1)


def built(mod, **options):
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    return relax.VirtualMachine(ar.build(partitioned, options={"openvino": options}), tvm.cpu())


def call(machine, *arrays):
    result = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]
