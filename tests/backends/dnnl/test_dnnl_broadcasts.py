"""Arithmetic with operands that are broadcast along any axes: by fast code, and equal to NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import answered, needs_onednn
from tvm import relax
from tvm.relax import op

pytestmark = needs_onednn

Shape = tuple[int, ...]
PAIRS: list[tuple[Shape, Shape]] = [
    ((1, 4, 2, 16, 16), (1, 4, 1, 16, 16)),  # the mask of Swin's windows
    ((4, 2, 16, 16), (4, 1, 16, 16)),
    ((2, 3, 4, 5), (1, 3, 1, 5)),
    ((2, 3, 4, 5), (2, 1, 4, 1)),
    ((2, 3, 4, 5, 6), (2, 1, 4, 1, 6)),
    ((2, 1, 3, 1, 4), (1, 1, 3, 1, 1)),
    ((3, 1, 5), (1, 1, 5)),
    ((1, 1, 1), (1, 1, 1)),
    ((2, 3, 4, 5, 6, 2), (1, 3, 1, 5, 1, 2)),
]
FUNCTIONS: dict[str, tuple[Callable[..., relax.Expr], Callable[..., np.ndarray]]] = {
    "add": (op.add, np.add),
    "subtract": (op.subtract, np.subtract),
    "multiply": (op.multiply, np.multiply),
    "divide": (op.divide, np.divide),
    "maximum": (op.maximum, np.maximum),
    "minimum": (op.minimum, np.minimum),
}


def numbers(shape: Shape, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32") + 0.01


@pytest.mark.sweep
@pytest.mark.parametrize(("whole", "part"), PAIRS, ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["the second is broadcast", "the first is broadcast"])
def test_each_broadcast_is_exact_and_needs_no_reference_code(whole, part, turned):
    given = [numbers(whole, 1), numbers(part, 2)][:: -1 if turned else 1]

    def all_functions(x: relax.Expr, y: relax.Expr) -> relax.Expr:
        positive = op.nn.relu(x)
        return relax.Tuple([make(positive, y) for make, _ in FUNCTIONS.values()])

    found, plan = answered(all_functions, *given)
    positive = np.maximum(given[0], 0)
    for result, (_, expected) in zip(found, FUNCTIONS.values(), strict=True):
        np.testing.assert_array_equal(result, expected(positive, given[1]), strict=True)
    assert "ref:any" not in plan


def test_of_an_operand_with_channels_innermost():
    image, kernel = numbers((2, 8, 5, 6), 1), numbers((16, 8, 1, 1), 2)
    scale = numbers((2, 1, 5, 1), 3)

    def scaled(x: relax.Expr, w: relax.Expr, s: relax.Expr) -> relax.Expr:
        return op.multiply(op.nn.relu(op.nn.conv2d(x, w)), s)

    (found,), _ = answered(scaled, image, kernel, scale)
    product = np.einsum("nchw,oc->nohw", image.astype("float64"), kernel[:, :, 0, 0].astype("float64"))
    np.testing.assert_allclose(found, np.maximum(product, 0) * scale, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_is_what_it_is_without_a_broadcast(name):
    """Of two numbers of which one is NaN, the second, as TVM has it."""
    make, _ = FUNCTIONS[name]
    data, other = numbers((2, 3, 4, 5), 1), numbers((1, 3, 1, 5), 2)
    data[0, :2], other[0, 1:] = np.nan, np.nan
    (found,), plan = answered(make, data, other)
    whole = np.broadcast_to(other, data.shape)
    choice = data > whole if name == "maximum" else data < whole
    np.testing.assert_array_equal(found, np.where(choice, data, whole))
    assert "combine" in plan
