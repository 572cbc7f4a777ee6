"""Cubic resizing on ONNX Runtime where its optimizer would move transpositions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends import engine_kit
from kits.backends.engine_kit import call
from kits.backends.relax_kit import module, op_views, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

built = partial(engine_kit.built, "onnxruntime")
BATCH = tirx.Var("n", "int64")


@pytest.mark.sweep
@pytest.mark.parametrize("size", [(5, 7), (1, 2)], ids=str)
@pytest.mark.parametrize(
    "shape",
    [(2, 1, 16, 2), (1, 8, 6, 3), (1, 6, 6, 1), (3, 6, 6, 1), (BATCH, 6, 5, 2), (BATCH, 6, 5, 1)],
    ids=str,
)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_cubic_image_between_transpositions(
    shape: tuple[Any, ...], layout: str, size: tuple[int, int]
) -> None:
    x = var("x", shape)

    def make(_: object) -> relax.Expr:
        if layout == "NHWC":
            return op.image.resize2d(x, size, layout=layout, method="cubic")
        turned = op.image.resize2d(op.permute_dims(x, [0, 3, 1, 2]), size, method="cubic")
        return op.permute_dims(turned, [0, 2, 3, 1])

    mod = module([x], make)
    partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
    assert all(view.name == "relax.call_dps_packed" for view in op_views(partitioned))
    host, machine = relax.VirtualMachine(ar.build(mod), tvm.cpu()), built(mod)
    for batch in (3, 1) if shape[0] is BATCH else (shape[0],):
        data = np.random.default_rng(0).standard_normal((batch, *shape[1:])).astype("float32")
        np.testing.assert_allclose(call(machine, data), call(host, data), rtol=1e-5, atol=1e-5)
