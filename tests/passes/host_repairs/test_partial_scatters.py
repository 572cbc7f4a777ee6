"""Scatters by fewer indices than there are elements along other axes write where PyTorch and ONNX do."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def scatter(data: list[object], places: list[object], axis: int, how: str = "add") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    given = [
        relax.Var("x", relax.TensorType(data, "float32")),
        relax.Var("i", relax.TensorType(places, "int64")),
        relax.Var("u", relax.TensorType(places, "float32")),
    ]
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(relax.op.scatter_elements(*given, axis, how))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("is_symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_elements_at_the_places_are_added_to(axis: int, is_symbolic: bool) -> None:
    rng = np.random.default_rng(8)
    data, updates = (rng.standard_normal(shape).astype("float32") for shape in ((4, 3, 5), (2, 2, 3)))
    places = rng.integers(0, data.shape[axis], updates.shape)
    mod = scatter([4, N, 5], [2, M, 3], axis) if is_symbolic else scatter([4, 3, 5], [2, 2, 3], axis)
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, (data, places, updates))).numpy()
    expected = data.copy()
    for index in np.ndindex(places.shape):
        at = list(index)
        at[axis] = places[index]
        expected[tuple(at)] += updates[index]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_as_many_places_stay() -> None:
    mod = scatter([4, N, 5], [4, N, 2], 2)
    assert repaired(mod).same_as(mod)


def test_a_scatter_to_a_scalar_is_named() -> None:
    kinds = (("x", "float32"), ("places", "int64"), ("updates", "float32"))
    params = [relax.Var(name, relax.TensorType((), dtype)) for name, dtype in kinds]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(relax.op.scatter_elements(*params, 0, "add"))
        builder.emit_func_output(out)
    with pytest.raises(ar.BuildError, match=r"it is relax\.scatter_elements .* that TVM cannot compile"):
        ar.build(builder.get())
