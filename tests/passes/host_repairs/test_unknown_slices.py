"""Slices put into axes of symbolic extent, on the host and beside regions, are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

N, M = (tirx.Var(name, "int64") for name in "nm")
END = 2**63 - 1
BOUNDS = {
    "the first rows": (0, M, slice(0, 3)),
    "the last rows": (N - M, N, slice(2, 5)),
    "rows of known numbers": (1, 4, slice(1, 4)),
    "rows from the end": (-4, -1, slice(-4, -1)),
    "up to the end": (2, END, slice(2, 5)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_slice_of_a_symbolic_axis_is_replaced(name: str, axis: int) -> None:
    begin, end, places = BOUNDS[name]
    shapes = [(N, 2), (M, 2)] if axis == 0 else [(2, N), (2, M)]
    x, updates = (var(letter, shape, "float32") for letter, shape in zip("xu", shapes, strict=True))

    def body(builder: relax.BlockBuilder) -> relax.Expr:
        data = builder.emit(op.nn.relu(x))
        return op.slice_scatter(data, updates, begin, end, 1, axis)

    mod = module([x, updates], body)
    given = np.abs(np.random.default_rng(0).standard_normal((5, 2) if axis == 0 else (2, 5))).astype(
        "float32"
    )
    new = -np.ones((3, 2) if axis == 0 else (2, 3), "float32")
    expected = given.copy()
    expected[places if axis == 0 else (slice(None), places)] = new
    for targets in ([], ["dnnl"]):
        built = ar.build(ar.partition(mod, targets))
        found = relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, (given, new)))
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_slice_with_steps_is_refused() -> None:
    x, updates = var("x", (N, 2), "float32"), var("u", (M, 2), "float32")
    mod = module([x, updates], lambda _: op.slice_scatter(x, updates, 0, N, 2, 0))
    with pytest.raises(ar.BuildError, match=r"it is relax\.slice_scatter"):
        ar.build(mod)
