"""A tensor of unknown extents is broadcast also where a run has one element, on the host and on targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
TARGETS = ([], ["dnnl"], ["onnxruntime"], ["openvino"])


def broadcast(given: Sequence[object], wanted: Sequence[object]) -> tvm.IRModule:
    """``relu(x)`` broadcast to extents of which ``like`` brings the unknown ones."""
    builder = relax.BlockBuilder()
    x, like = (
        relax.Var("x", relax.TensorType(given, "float32")),
        relax.Var("like", relax.TensorType([M], "float32")),
    )
    with builder.function("main", [x, like]):
        with builder.dataflow():
            data = builder.emit(relax.op.nn.relu(x))
            result = builder.emit_output(relax.op.broadcast_to(data, relax.ShapeExpr(wanted)))
        builder.emit_func_output(result)
    return builder.get()


def answer(
    machine: relax.VirtualMachine, shape: tuple[int, ...], count: int
) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(7).uniform(1, 2, shape).astype("float32")
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros(count, "float32"))).numpy()
    return x, found


@pytest.mark.parametrize("targets", TARGETS, ids=str)
def test_one_row_is_repeated_and_many_rows_stay(targets: list[str]) -> None:
    module = ar.partition(broadcast([N, 4], [M, 4]), targets)
    machine = relax.VirtualMachine(ar.build(module), tvm.cpu())
    for rows, count in ((1, 5), (5, 5), (1, 1), (1, 3000)):
        x, found = answer(machine, (rows, 4), count)
        np.testing.assert_array_equal(found, np.broadcast_to(x, (count, 4)))


def test_two_axes_and_one_in_front() -> None:
    mod = broadcast([N, tirx.Var("k", "int64")], [2, M, 3])
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    for shape in ((1, 1), (4, 1), (1, 3), (4, 3)):
        x, found = answer(machine, shape, 4)
        np.testing.assert_array_equal(found, np.broadcast_to(x, (2, 4, 3)))


@pytest.mark.parametrize(("given", "wanted"), [([M, 4], [2, M, 4]), ([1, 4], [M, 4])], ids=str)
def test_what_tvm_knows_stays(given: list[object], wanted: list[object]) -> None:
    mod = broadcast(given, wanted)
    assert repaired(mod).same_as(mod)
