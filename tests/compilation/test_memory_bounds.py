"""A bound of a symbolic extent reserves no more memory than it should."""

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.compilation.memory_bounds import without_large_bounds


def products_of_rows(most, batch=1):
    """The sums of exponents of the products of all pairs of rows, whose number has a bound."""
    rows = tirx.Var("n", "int64")
    batch = tirx.Var("b", "int64") if batch is None else batch
    x = relax.Var("x", relax.TensorType((batch, rows, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x], attrs={"tir_var_upper_bound": {"n": most}}):
        with builder.dataflow():
            products = builder.emit(relax.op.matmul(x, relax.op.permute_dims(x, [0, 2, 1])))
            out = builder.emit_output(relax.op.sum(builder.emit(relax.op.exp(products)), -1))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("most", [100, 1 << 53])
@pytest.mark.parametrize("batch", [1, None])
def test_short_inputs_run_whatever_the_bound(most, batch):
    x = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    machine = relax.VirtualMachine(ar.build(products_of_rows(most, batch)).jit(), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, np.exp(x @ x.transpose(0, 2, 1)).sum(-1), 1e-5)


@pytest.mark.parametrize(
    ("most", "batch", "stays"),
    [(8000, 1, True), (9000, 1, False), (8000, 2, False), (8000, None, True), (9000, None, False)],
)
def test_bounds_stay_where_the_largest_tensor_has_at_most_256_megabytes(most, batch, stays):
    given = products_of_rows(most, batch)
    bounded = without_large_bounds(given)
    assert ("tir_var_upper_bound" in (bounded["main"].attrs or {})) == stays
    assert bounded.same_as(given) == stays
    assert "tir_var_upper_bound" in given["main"].attrs
