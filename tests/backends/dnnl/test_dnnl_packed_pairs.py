"""Many rows that meet packed weights in bfloat16: both are rounded once, and sums are of float32."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, run
from kits.backends.dnnl.packed_products import Ran, products, runs
from kits.backends.dnnl.packed_samples import SAMPLES, Sample, compiled, pointer
from kits.backends.dnnl.processor_flags import SAID_IN, processor_flags
from kits.host_machines import host_machine

import annotated_region as ar
from annotated_region.backends.dnnl import processor

UNITS = ("vectors", "tiles")
DEEP = [
    (4, 2112, 70, 32, True),  # 66 steps of 32: two spans of the depth
    (8, 1056, 5, 96, False),  # 33 steps, and groups that begin within one
    (4, 600, 40, 600, True, True),  # the whole depth is a group
    (8, 520, 70, 260, False, True),  # a group ends within a step
    (4, 2112, 3, 2112, True),  # a group goes on in the second span
    (4, 24, 33, 8, True),  # less than a step
    (8, 4, 1, 4, False),
]
"""Weights whose depth, groups and columns meet the edges of steps, spans and slices."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not has_bfloat16():
        pytest.skip("the processor has no AVX512_BF16")
    return compiled(tmp_path_factory.mktemp("packed_pairs"))


def has_bfloat16() -> bool:
    """Whether the processor has instructions for products of bfloat16."""
    return {"avx512_bf16", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"} <= processor_flags()


def is_intel() -> bool:
    """Whether the vector unit multiplies bfloat16 at half the rate of float32."""
    return "GenuineIntel" in SAID_IN.read_text(encoding="utf-8")


def rounded(array: np.ndarray) -> np.ndarray:
    """To the nearest bfloat16, ties to even; infinity and NaN stay."""
    bits = np.ascontiguousarray(array, "float32").view("uint32").astype("uint64")
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    kept = np.where(np.isfinite(array), nearest, bits & 0xFFFF0000).astype("uint32").view("float32")
    return np.where(np.isnan(array), array, kept)


def multiplied(
    library: ctypes.CDLL, unit: str, weight: Sample, data: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """The product of a kernel; memory around the result is untouched."""
    if unit == "tiles" and not library.may_use_tiles():
        pytest.skip("the processor has no matrix unit")
    columns = weight.floats.shape[1]
    whole = np.full((len(data) + 2) * columns, np.pi, "float32")
    found = whole[columns:-columns].reshape(len(data), columns)
    stored, rows = weight.bytes(), ctypes.c_int64(len(data))
    given_bias = None if bias is None else pointer(bias)
    arguments = (pointer(stored), pointer(data), rows, given_bias, pointer(found))
    library.multiply_rows_in_bfloat16(weight.described(), int(unit == "tiles"), *arguments)
    assert (whole[:columns] == np.float32(np.pi)).all()
    assert (whole[-columns:] == np.float32(np.pi)).all()
    return found


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("sample", [*SAMPLES, *DEEP], ids=str)
def test_results_are_sums_of_products_of_what_is_rounded(library, sample, unit):
    weight = Sample(*sample)
    depth, columns = weight.floats.shape
    factors = rounded(weight.floats).astype("float64")
    for rows in (1, 8, 9, 16, 17, 31, 32, 33, 70):
        data = np.random.default_rng(rows).standard_normal((rows, depth), "float32")
        bias = np.linspace(-1, 1, columns, dtype="float32") if rows % 2 else None
        found = multiplied(library, unit, weight, data, bias)
        left = rounded(data).astype("float64")
        expected = left @ factors + (0 if bias is None else bias)
        magnitudes = np.abs(left) @ np.abs(factors) + (0 if bias is None else np.abs(bias))
        assert (np.abs(found - expected) <= depth * 2.0**-24 * magnitudes).all()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("sample", [*SAMPLES, *DEEP], ids=str)
def test_every_weight_is_rounded_to_the_nearest(library, sample, unit):
    """The rows pick a weight each."""
    weight = Sample(*sample)
    data = np.eye(len(weight.floats), dtype="float32")
    np.testing.assert_array_equal(multiplied(library, unit, weight, data), rounded(weight.floats))


@pytest.mark.parametrize("unit", UNITS)
def test_every_number_of_a_row_is_rounded_to_the_nearest(library, unit):
    weight = Sample(8, 64, 64, 64, True)
    data = np.random.default_rng(0).standard_normal((40, 64), "float32") * 1e20
    data[:, 1::2] = 0  # one product for each result
    data[:, 0:62:2] *= np.arange(31) == np.arange(40)[:, None] % 31
    data[:, 62] = 0
    data[3, 2] = 1.00390625  # a tie: the even neighbour is 1
    data[4, 2] = 1.01171875  # of 1.0078125 and 1.015625 the latter is even
    expected = rounded(data).astype("float64") @ rounded(weight.floats).astype("float64")
    np.testing.assert_allclose(multiplied(library, unit, weight, data), expected, rtol=2e-7)


@pytest.mark.parametrize("unit", UNITS)
def test_nan_and_infinity_are_those_of_floats(library, unit):
    """An infinite number times a weight of zero is NaN, and what is beside the depth meets nothing."""
    weight = Sample(4, 70, 70, 16, True)
    data = np.random.default_rng(0).standard_normal((40, 70), "float32")
    data[2, 5], data[20, 69], data[33, 0], data[33, 40] = np.inf, np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = rounded(data).astype("float64") @ rounded(weight.floats).astype("float64")
    found = multiplied(library, unit, weight, data)
    assert np.isnan(expected[2]).any()
    assert np.isinf(expected[2]).any()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


ROWS = (1, 16, 17, 40, 600)


def require_rounding_of_many_rows(made: Sequence[Ran], is_faster: bool) -> None:
    """Rows are rounded where there are more than 16, and it pays; else results are those of float32."""
    assert [each.rows for each in made] == list(ROWS)
    for each in made:
        is_rounded = each.rows > 16 and is_faster
        if is_rounded:
            assert each.steps == ["many rows of int4 in groups of 32 in bfloat16 times 2"]
        assert any("bfloat16" in step for step in each.steps) == is_rounded
        for error in each.errors:
            assert (1e-4 if is_rounded else 0) < error < (1e-2 if is_rounded else 1e-5)


@needs_onednn
def test_many_rows_are_rounded_and_few_are_not():
    require_rounding_of_many_rows(runs(ROWS, "bfloat16"), processor.multiplies_bfloat16_faster())


@needs_onednn
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"])
def test_every_processor_has_a_kernel(isa):
    """The vector unit where the matrix unit may not be used, and float32 where that is slow or missing."""
    program = f"from kits.backends.dnnl.packed_products import print_runs; print_runs({ROWS}, 'bfloat16')"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    is_faster, made = json.loads(finished.stdout.splitlines()[-1])
    assert is_faster == (isa == "AVX512_CORE_BF16" and has_bfloat16() and not is_intel())
    require_rounding_of_many_rows([Ran(*each) for each in made], is_faster)


@needs_onednn
@pytest.mark.parametrize("form", [(4, 1120, 40), (8, 1120, 200), (8, 96, 1)], ids=str)
def test_rows_are_processed_in_parts(form):
    """Deep rows 256 at a time, others 512; those of few columns are divided among threads."""
    bits, depth, columns = form
    module = ar.passes.QuantizeWeights(bits, 32)(products(depth, columns))
    alone = host_machine(module)
    x = np.random.default_rng(0).standard_normal((1100, depth), "float32")
    (found,), (expected,) = (
        offload(module, packed_activations="bfloat16").call("main", x),
        run(alone, "main", [x]),
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-2 * float(np.abs(expected).max()))


@needs_onednn
def test_rows_that_are_not_finite_come_out_as_in_float32():
    module = ar.passes.QuantizeWeights(8, 16)(products(48, 70))
    alone = host_machine(module)
    x = np.random.default_rng(0).standard_normal((530, 48), "float32")
    x[3, 5], x[17, 7], x[300], x[520] = np.inf, np.nan, 1e-38, -np.inf
    (found,), (expected,) = (
        offload(module, packed_activations="bfloat16").call("main", x),
        run(alone, "main", [x]),
    )
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=0.2)
