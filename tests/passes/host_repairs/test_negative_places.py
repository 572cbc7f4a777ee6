"""Indices that count from the end: elements are those of numpy, on the host and on dnnl."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

X = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
PLACES = [np.int64(-1), np.array([-1, 0, -5]), np.array([[-2], [3]], "int32")]


def taking(places: np.ndarray, length: int | tirx.Var, mode: str = "fast") -> tvm.IRModule:
    """`relu(x[:, places])`."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, length, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            taken = builder.emit(relax.op.take(x, relax.const(places), axis=1, mode=mode))
            output = builder.emit_output(relax.op.nn.relu(taken))
        builder.emit_func_output(output)
    return builder.get()


def answer(executable: ar.LinkedExecutable) -> np.ndarray:
    machine = relax.VirtualMachine(executable.jit(), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(X)).numpy()
    return found


@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("length", [5, tirx.Var("n", "int64")], ids=str)
def test_the_host_counts_from_the_end(places: np.ndarray, length: int | tirx.Var) -> None:
    found = answer(ar.build(taking(places, length)))
    np.testing.assert_array_equal(found, np.maximum(X[:, places], 0))


@needs_onednn
@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("length", [5, tirx.Var("n", "int64")], ids=str)
def test_dnnl_takes_them_too(places: np.ndarray, length: int | tirx.Var) -> None:
    module = taking(places, length)
    assert "host: nothing" in str(ar.explain(module, ["dnnl"]))
    found = answer(ar.build(ar.partition(module, ["dnnl"])))
    np.testing.assert_array_equal(found, np.maximum(X[:, places], 0))


@pytest.mark.parametrize(("places", "mode"), [([0, 4], "fast"), ([-6], "fast"), ([-1], "clip")], ids=str)
def test_other_indices_stay(places: list[int], mode: str) -> None:
    module = taking(np.array(places), 5, mode)
    assert repaired(module).same_as(module)
