"""The loops of the runtime: the best clone for the processor runs, and functions are exact as they claim."""

from __future__ import annotations

import ctypes
import math
import platform
import shutil
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from kits.backends.dnnl.processor_flags import processor_flags
from kits.backends.dnnl.programs import compiled_with_runtime

PROGRAM = """
#include "vector_math.h"
namespace annotated_region_dnnl {
ANNOTATED_REGION_CLONES float sum_of_product(float a, float b, float c) { return a * b + c; }
}
extern "C" float multiply_add(float a, float b, float c) {
  return annotated_region_dnnl::sum_of_product(a, b, c);
}
#define RUN(name, run) \\
  extern "C" void name(const float* from, float* to, int64_t size) { \\
    annotated_region_dnnl::run(from, to, size); \\
  }
RUN(gauss_error, gauss_error_run)
RUN(logarithm, logarithm_run)
RUN(sines, small_sine_run)
RUN(cosines, small_cosine_run)
RUN(floors, floor_run)
RUN(ceilings, ceiling_run)
RUN(truncations, truncation_run)
extern "C" int are_small(const float* from, int64_t size) {
  return annotated_region_dnnl::are_small_angles(from, size);
}
extern "C" void all(const float* from, float* to, int64_t size) {
  annotated_region_dnnl::exponential_run(from, to, size);
  annotated_region_dnnl::gelu_run(from, to, size);
  annotated_region_dnnl::half_power_run(from, to, size);
}
extern "C" void powers(const float* from, float* to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] = annotated_region_dnnl::exponential(from[i]);
}
extern "C" void decays(const float* from, float* to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] = annotated_region_dnnl::decay(from[i]);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled_with_runtime(PROGRAM, tmp_path_factory.mktemp("vector_math"))


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no disassembler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="there are clones for x86-64 only")
@pytest.mark.parametrize(
    "name",
    [
        *("gauss_error_run", "exponential_run", "logarithm_run", "gelu_run", "half_power_run"),
        *(
            "small_sine_run",
            "small_cosine_run",
            "are_small_angles",
            "floor_run",
            "ceiling_run",
            "truncation_run",
        ),
    ],
)
def test_loops_for_avx2_work_on_whole_vectors(library: ctypes.CDLL, name: str) -> None:
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library._name], capture_output=True, text=True, check=True
    ).stdout
    clones = {text.split(">:")[0]: text for text in listing.split("\n\n")}
    wide = [text for name_, text in clones.items() if name in name_ and name_.endswith(("v3", "avx2"))]
    assert [text.count("%ymm") > 0 for text in wide] == [True]


@pytest.mark.skipif(not {"avx2", "fma"} <= processor_flags(), reason="the processor has neither AVX2 nor FMA")
def test_the_best_clone_runs(library: ctypes.CDLL) -> None:
    """The clone for the least machine rounds a product before it is added to; the others do not."""
    call = library.multiply_add
    call.restype, call.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    assert call(1 + 2.0**-12, 1 + 2.0**-12, -(1 + 2.0**-11)) == 2.0**-24


def computed(library: ctypes.CDLL, name: str, numbers: np.ndarray) -> np.ndarray:
    result = np.empty_like(numbers)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (numbers, result)]
    getattr(library, name)(*pointers, ctypes.c_int64(numbers.size))
    return result


def numbers_of_all_sizes() -> np.ndarray:
    exponents = np.linspace(-30, 6, 100_003)
    sizes = np.concatenate([2.0**exponents, np.linspace(0.9, 1.1, 5001), np.linspace(3.9, 4.1, 5001)])
    return np.concatenate([sizes, -sizes]).astype("float32")


def test_a_logarithm_is_the_nearest_number(library: ctypes.CDLL) -> None:
    """Of numbers of all exponents, subnormal ones too, and of those next to one."""
    bits = np.arange(1, 0x7F800000, 9973, dtype="uint32")
    numbers = np.concatenate([bits.view("float32"), np.linspace(0.99, 1.01, 20001, dtype="float32")])
    expected = np.array([math.log(float(number)) for number in numbers]).astype("float32")
    np.testing.assert_array_equal(computed(library, "logarithm", numbers), expected)


def angles() -> np.ndarray:
    """Of all exponents up to the largest angle, and next to the multiples of quarters of a circle."""
    last = int(np.float32(1e6).view("uint32"))
    bits = np.concatenate([np.arange(0, last, 9973), [1, last]]).astype("uint32")
    quarters = (np.concatenate([np.arange(0, 20001), [636_619]]) * (math.pi / 2)).astype("float32")
    beside = [np.nextafter(quarters, np.float32(side)) for side in (-np.inf, np.inf)]
    sizes = np.concatenate([bits.view("float32"), quarters, *beside])
    return np.concatenate([sizes, -sizes])


@pytest.mark.parametrize(("name", "exact"), [("sines", math.sin), ("cosines", math.cos)])
def test_a_sine_is_the_nearest_number(
    library: ctypes.CDLL, name: str, exact: Callable[[float], float]
) -> None:
    numbers = angles()
    expected = np.array([exact(float(number)) for number in numbers]).astype("float32")
    found = computed(library, name, numbers)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("number", [np.nextafter(np.float32(1e6), np.inf), -3e38, np.inf, -np.inf, np.nan])
def test_one_large_angle_makes_a_run_one_for_the_c_library(library: ctypes.CDLL, number: float) -> None:
    numbers = np.linspace(-1e6, 1e6, 21, dtype="float32")
    pointer = numbers.ctypes.data_as(ctypes.c_void_p)
    assert library.are_small(pointer, ctypes.c_int64(21)) == 1
    numbers[17] = number
    assert library.are_small(pointer, ctypes.c_int64(21)) == 0
    assert library.are_small(pointer, ctypes.c_int64(17)) == 1


@pytest.mark.parametrize(
    ("name", "exact"), [("floors", np.floor), ("ceilings", np.ceil), ("truncations", np.trunc)]
)
def test_roundings_keep_zeros_and_what_is_no_number(library: ctypes.CDLL, name: str, exact: np.ufunc) -> None:
    edges = np.array(
        [-0.0, -0.5, 0.5, 8388607.5, -8388607.5, 2.0**31, 3e38, np.inf, -np.inf, np.nan], "float32"
    )
    numbers = np.concatenate([edges, numbers_of_all_sizes()])
    found = computed(library, name, numbers)
    np.testing.assert_array_equal(found, exact(numbers))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact(numbers)))


@pytest.mark.parametrize(("name", "exact"), [("gauss_error", math.erf), ("powers", math.exp)])
def test_a_function_is_exact_to_two_units_in_the_last_place(library: ctypes.CDLL, name: str, exact) -> None:
    numbers = numbers_of_all_sizes()
    expected = np.array([exact(float(number)) for number in numbers])
    normal = expected.astype("float32")
    assert (np.abs(computed(library, name, numbers) - expected) <= 2 * np.spacing(np.abs(normal))).all()


def test_the_error_function_of_what_is_no_number_or_has_no_end(library: ctypes.CDLL) -> None:
    numbers = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], "float32")
    result = computed(library, "gauss_error", numbers)
    np.testing.assert_array_equal(result, np.array([np.nan, 1.0, -1.0, 0.0, -0.0], "float32"))
    assert list(np.signbit(result[3:])) == [False, True]


def test_exponentials_of_what_is_not_positive_have_the_same_bits(library: ctypes.CDLL) -> None:
    """Up to 0 one factor suffices for the exponent; NaN of any payload stays NaN."""
    payloads = np.array([0x7FC00001, 0xFFC00001, 0x7F800200, 0x7FFFFFFF], "uint32").view("float32")
    edges = np.array([0.0, -0.0, -87.33654, -87.33655, -103.0, -1e30, -np.inf], "float32")
    steps = -np.linspace(0, 90, 90_001, dtype="float32")
    numbers = np.concatenate([-np.abs(numbers_of_all_sizes()), steps, edges, payloads])
    np.testing.assert_array_equal(computed(library, "decays", numbers), computed(library, "powers", numbers))
