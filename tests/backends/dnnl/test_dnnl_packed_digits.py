"""Rows that meet packed weights in whole numbers: as exact as their digits allow, one row as many."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, run
from kits.backends.dnnl.packed_products import products
from kits.backends.dnnl.packed_samples import SAMPLES, Sample, compiled, has_whole_numbers, pointer
from kits.backends.dnnl.processor_flags import is_amd
from kits.host_machines import host_machine

import annotated_region as ar

EXACT = "the processor has no AVX-512 VNNI"
MAGNITUDES = (1.0, 1e-20, 1e20)

LOST = {3: 1e-6, 2: 2.0**-16, 1: 2.0**-7.9}
"""By the digits of a number, how much of the largest number of its group rounding takes."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not has_whole_numbers():
        pytest.skip(EXACT)
    return compiled(tmp_path_factory.mktemp("packed_digits"))


def rows_for(weight: Sample, rows: int, magnitude: float = 1.0) -> np.ndarray:
    """Random rows with zeros behind them, as deep as the groups reach."""
    depth, groups = len(weight.floats), weight.stored.groups
    data = np.zeros((rows, groups * weight.stored.stored_group), "float32")
    data[:, :depth] = np.random.default_rng(rows).standard_normal((rows, depth)) * magnitude
    return data


def limits(weight: Sample, data: np.ndarray, digits: int) -> np.ndarray:
    """How far each result may be off, in float64: what rounding takes of each number, times its weight."""
    depth, size = len(weight.floats), weight.stored.stored_group
    groups = np.abs(data.astype("float64")).reshape(len(data), -1, size)
    largest = np.repeat(groups.max(axis=2), size, axis=1)[:, :depth]
    found: np.ndarray = largest @ np.abs(weight.floats.astype("float64")) * LOST[digits]
    return found


@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_a_row_in_whole_numbers_is_as_exact_as_its_digits(library, sample, magnitude):
    weight = Sample(*sample)
    stored, given = weight.bytes(), weight.described()
    depth, columns = weight.floats.shape
    bias = np.linspace(-magnitude, magnitude, columns, dtype="float32")
    for digits in LOST:
        for row in rows_for(weight, 20, magnitude):
            found, together = np.full((2, columns), np.nan, "float32")
            for at_once, result in ((1, found), (library.most_tiles_at_once(), together)):
                numbers = map(ctypes.c_int64, (digits, at_once))
                arguments = map(pointer, (stored, row, bias, result))
                assert library.multiply_in_digits(given, *numbers, *arguments) == 0
            np.testing.assert_array_equal(together, found)
            expected = row[:depth].astype("float64") @ weight.floats + bias
            allowed = limits(weight, row[None], digits)[0] + 1e-6 * np.abs(bias)
            assert (np.abs(found - expected) <= allowed).all()


@pytest.mark.parametrize("digits", LOST)
@pytest.mark.parametrize("sample", [*SAMPLES, (4, 4352, 70, 32, True), (8, 2100, 5, 128, False)], ids=str)
def test_rows_of_any_number_are_as_exact_as_their_digits(library, sample, digits):
    """Two of the weights are deeper than what is made bytes of at a time.

    The matrix unit, where the processor has one, gives the bits that the vector unit gives.
    """
    weight = Sample(*sample)
    stored, given = weight.bytes(), weight.described()
    depth, columns = weight.floats.shape
    for rows in (1, 5, 6, 13, 16, 33):
        data = rows_for(weight, rows)
        found = np.full((2, rows, columns), np.nan, "float32")
        for in_tiles in range(1 + library.may_use_tiles()):
            arguments = (pointer(stored), pointer(data), ctypes.c_int64(rows), pointer(found[in_tiles]))
            given_digits = ctypes.c_int64(digits)
            assert library.multiply_rows_in_digits(given, given_digits, in_tiles, *arguments) == 0
        expected = data[:, :depth].astype("float64") @ weight.floats
        assert (np.abs(found[0] - expected) <= limits(weight, data, digits)).all()
        if library.may_use_tiles():
            np.testing.assert_array_equal(found[1], found[0])


def test_groups_that_no_equal_tiles_divide_are_left_to_the_vector_unit(library):
    weight = Sample(8, 68, 3, 68, False)
    data, found = rows_for(weight, 2), np.empty((2, 3), "float32")
    stored, given = weight.bytes(), weight.described()
    arguments = (pointer(stored), pointer(data), ctypes.c_int64(2), pointer(found))
    assert library.multiply_rows_in_digits(given, ctypes.c_int64(3), 1, *arguments) == 2
    assert library.multiply_rows_in_digits(given, ctypes.c_int64(3), 0, *arguments) == 0
    expected = data.astype("float64") @ weight.floats
    assert (np.abs(found - expected) <= limits(weight, data, 3)).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e-40])
def test_what_has_no_digits_is_left_to_floats(library, odd):
    weight = Sample(4, 64, 64, 32, False)
    data, found = np.zeros(64, "float32"), np.empty(64, "float32")
    data[40] = odd
    numbers, arguments = map(ctypes.c_int64, (3, 1)), map(pointer, (weight.bytes(), data, found, found))
    assert library.multiply_in_digits(weight.described(), *numbers, *arguments) == 1


ALLOWED = {"float32": 1e-5, "int16": 1e-4, "int8": 2e-2}
"""Of the largest result, by the option."""


@needs_onednn
@pytest.mark.parametrize("activations", ALLOWED)
def test_the_option_says_what_rows_are_rounded_to(activations):
    """One row, few, which are floats where AMD is not the maker, a block of rows, and more than one."""
    module = ar.passes.QuantizeWeights(4, 32, True)(products(96, 70, 128))
    alone = host_machine(module)
    offloaded = offload(module, packed_activations=activations)
    floats = () if is_amd() else range(2, 17)
    for rows in (1, 2, 16, 17, 600):
        x = np.random.default_rng(rows).standard_normal((rows, 96), "float32")
        for found, expected in zip(offloaded.call("main", x), run(alone, "main", [x]), strict=True):
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert error < ALLOWED[activations]
            coarser = activations == "int8" and has_whole_numbers() and rows not in floats
            assert (error > 1e-3) == coarser


@needs_onednn
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("activations", ALLOWED)
def test_each_of_few_rows_is_what_it_is_alone(activations, bits):
    """Also those without digits. To the bit where few rows have digits; elsewhere they are floats."""
    module = ar.passes.QuantizeWeights(bits, 32, True)(products(96, 70))
    offloaded = offload(module, packed_activations=activations)
    for rows in (2, 7, 16):
        x = np.random.default_rng(rows).standard_normal((rows, 96), "float32")
        x[1, 5] = np.inf
        (found,) = offloaded.call("main", x)
        alone = np.concatenate([offloaded.call("main", x[row : row + 1])[0] for row in range(rows)])
        allowed = 0.0 if is_amd() and has_whole_numbers() else ALLOWED[activations]
        np.testing.assert_allclose(found, alone, rtol=0, atol=allowed * np.abs(np.delete(alone, 1, 0)).max())


@needs_onednn
def test_of_many_rows_those_without_digits_are_multiplied_as_floats():
    module = ar.passes.QuantizeWeights(8, 16)(products(48, 70))
    offloaded = offload(module)
    alone = host_machine(module)
    x = np.random.default_rng(0).standard_normal((530, 48), "float32")
    x[3, 5], x[17, 7], x[300] = np.inf, np.nan, 1e-38
    (found,), (expected,) = offloaded.call("main", x), run(alone, "main", [x])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_rounding_is_refused():
    module = ar.passes.QuantizeWeights(8, 16)(products(32, 16))
    with pytest.raises(ar.CodegenError, match="does not know the packed activations 'int4'"):
        offload(module, packed_activations="int4")
