"""What OpenVINO computes of constants alone, and would overwrite in the first call, is left to others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.backends.engine_kit import call
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.errors import RegionRejectedWarning

IMAGE = np.random.default_rng(1).standard_normal((3, 2, 4, 4)).astype("float32")
KERNEL = np.random.default_rng(2).standard_normal((2, 2, 2, 2)).astype("float32")
OF_CONSTANTS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "convolution": lambda x: op.nn.conv2d(x, relax.const(KERNEL)),
    "means": lambda x: op.nn.avg_pool2d(x, (2, 2)),
    "transposed convolution": lambda x: op.nn.conv2d_transpose(
        x, relax.const(KERNEL), padding=(1, 1), output_padding=(0, 0)
    ),
    "SELU": lambda _: op.nn.selu(relax.const(np.ascontiguousarray(IMAGE[..., :3, :3]))),
}


@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_each_call_reads_the_same_constant(name: str) -> None:
    x = var("x", (3, 2, 3, 3))

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        known = builder.emit(OF_CONSTANTS[name](relax.const(IMAGE)))
        return op.tanh(builder.emit(op.add(known, x)))

    mod = module([x], make)
    with pytest.warns(RegionRejectedWarning, match="OpenVINO overwrites the result of"):
        executable = ar.build(ar.partition(mod, ["openvino"], prepare=False))
    machine, host = (relax.VirtualMachine(each, tvm.cpu()) for each in (executable, ar.build(mod)))
    for seed in range(3):
        data = np.random.default_rng(seed).standard_normal((3, 2, 3, 3)).astype("float32")
        np.testing.assert_allclose(call(machine, data), call(host, data), rtol=1e-5, atol=1e-6)
