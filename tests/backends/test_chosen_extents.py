"""Extents of which a condition chooses one, as TVM infers them for slices whose bounds may be negative."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.functions.extent_choices import parts_of_choice

N = tirx.Var("n", "int64")


@pytest.mark.parametrize("target", [pytest.param("dnnl", marks=needs_onednn), "onnxruntime"])
def test_a_chosen_extent_is_computed_in_each_call(target):
    """Of one row `x[: n - 4]` has none, of three two, of six two; what is computed of it is as long."""
    x = var("x", (N, 2))

    def body(builder):
        part = builder.emit(op.strided_slice(x, [0], [0], [N - 4]))
        return op.concat([builder.emit(op.nn.relu(part)), x], 0)

    parted = ar.partition(module([x], body), [target])
    assert "if_then_else" in parted.script()
    run = relax.VirtualMachine(ar.build(parted), tvm.cpu())["main"]
    for rows in (1, 2, 3, 4, 5, 7, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 2)).astype("float32")
        found = run(tvm.runtime.tensor(given)).numpy()
        np.testing.assert_array_equal(found, np.concatenate([np.maximum(given[: rows - 4], 0), given]))


@pytest.mark.parametrize(
    ("extent", "parts"),
    [
        (tirx.if_then_else(N < 3, N * 2, N + 1), ["n < T.int64(3)", "n * T.int64(2)", "n + T.int64(1)"]),
        (tirx.Select(N < 3, N * 2, N + 1), ["n < T.int64(3)", "n * T.int64(2)", "n + T.int64(1)"]),
        (N, None),
        (N + 1, None),
        (tirx.IntImm("int64", 3), None),
        (tirx.exp(tirx.FloatImm("float32", 1.0)), None),
    ],
)
def test_the_parts_of_a_choice(extent, parts):
    found = parts_of_choice(extent)
    assert (None if found is None else list(map(str, found))) == parts
