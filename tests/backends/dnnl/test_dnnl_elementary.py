"""Functions that the C++ library computes, and cumulative products, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar

pytestmark = needs_onednn

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42, 1.0, -1.0, 90.0, -90.0], "float32")
FUNCTIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "tan": np.tan,
    "sign": lambda x: np.nan_to_num(np.sign(x)),
}


DIVISIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mod": np.fmod,
    "floor_mod": lambda x, y: x - np.floor(x / y) * y,
    "floor_divide": lambda x, y: np.floor(x / y),
}


def numbers() -> np.ndarray:
    draw = np.random.default_rng(5)
    return np.concatenate(
        [EDGES, draw.uniform(-1, 1, 500), draw.uniform(-80, 80, 500), draw.normal(size=500) * 1e-4]
    ).astype("float32")


def computed(function: Callable[..., relax.Expr], *given: np.ndarray) -> np.ndarray:
    params = [var(f"x{place}", each.shape, str(each.dtype)) for place, each in enumerate(given)]
    made = ar.partition(module(params, lambda _builder: function(*params)), ["dnnl"], prepare=False)
    assert not ops_on_host(made, "main")
    return offload(made).call("main", *given)[0]


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exact_to_two_places_of_float32(name):
    """Also where TVM's own approximations on the host are further off."""
    given = numbers()
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](given.astype("float64")).astype("float32")
    np.testing.assert_array_max_ulp(computed(getattr(op, name), given), expected, 2)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(), (1, 40), (30, 1), (30, 40), (2, 30, 40)])
@pytest.mark.parametrize("constant", ["none", "base", "exponent"])
def test_powers_of_computed_exponents_are_exact_to_a_place_of_float32(constant, shape):
    """Of negative bases, zeros and infinities, too."""
    draw = np.random.default_rng(7)
    whole = draw.integers(-9, 9, 400).astype("float32")
    base = np.resize(np.concatenate([EDGES, whole, draw.uniform(0, 9, 400).astype("float32")]), (30, 40))
    exponent = draw.permutation(np.resize(np.concatenate([EDGES, whole, draw.normal(size=400)]), 2400))
    exponent = exponent[: int(np.prod(shape))].reshape(shape).astype("float32")
    with np.errstate(all="ignore"):
        expected = np.power(base.astype("float64"), exponent.astype("float64")).astype("float32")
    bound = {"base": relax.const(base), "exponent": relax.const(exponent)}
    given = [each for name, each in (("base", base), ("exponent", exponent)) if name != constant]

    def power(*params: relax.Expr) -> relax.Expr:
        left = bound["base"] if constant == "base" else params[0]
        return op.power(left, bound["exponent"] if constant == "exponent" else params[-1])

    np.testing.assert_array_max_ulp(computed(power, *given), expected, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(), (1, 40), (30, 1), (2, 30, 40)])
@pytest.mark.parametrize("name", DIVISIONS)
def test_quotients_and_remainders_are_those_of_numpy(name, shape):
    """Bit by bit, the sign of zero too: among tenths, most of which are near multiples, and edges."""
    draw = np.random.default_rng(6)
    tenths = (draw.integers(-90, 90, 1200) / 10).astype("float32")
    left = np.resize(np.concatenate([EDGES, tenths, numbers()[11:411]]), (30, 40))
    right = draw.permutation(np.resize(np.concatenate([EDGES[::-1], tenths]), 2400))[: int(np.prod(shape))]
    right = right.reshape(shape)
    with np.errstate(all="ignore"):
        expected = DIVISIONS[name](left, right)
    found = computed(getattr(op, name), left, right)
    assert expected.dtype == found.dtype
    np.testing.assert_array_equal(found, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


@pytest.mark.sweep
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_cumulative_products_are_those_of_numpy(dtype, axis, exclusive):
    """Whole numbers wrap around."""
    draw = np.random.default_rng(7)
    given = (draw.uniform(-2, 2, (3, 40)) if dtype == "float32" else draw.integers(-9, 9, (3, 40))).astype(
        dtype
    )
    given[given == 0] = 3
    expected = np.cumprod(given, axis, dtype)
    if exclusive:
        before = np.roll(expected, 1, axis)
        first = (0,) if axis is None else tuple(0 if each == axis % 2 else slice(None) for each in range(2))
        before[first] = 1
        expected = before
    found = computed(lambda x: op.cumprod(x, axis, exclusive=exclusive), given)
    np.testing.assert_allclose(found, expected, 1e-6 if dtype == "float32" else 0)


def test_cumulative_products_of_truth_values_are_whole_numbers():
    given = np.array([[True, True, False, True], [True, True, True, True]])
    found = computed(lambda x: op.cumprod(x, 1, "int64"), given)
    np.testing.assert_array_equal(found, np.cumprod(given, 1, "int64"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_functions_of_halves_are_computed_in_float32(dtype):
    given = np.linspace(-0.9, 0.9, 64, dtype="float32")
    x = var("x", (64,))

    def make(builder):
        half = builder.emit(op.astype(x, dtype))
        return op.astype(builder.emit(op.atanh(half)), "float32")

    made = ar.partition(module([x], make), ["dnnl"], prepare=False)
    assert not ops_on_host(made, "main")
    (found,) = offload(made).call("main", given)
    np.testing.assert_allclose(found, np.arctanh(given), 2e-2, 1e-2)
