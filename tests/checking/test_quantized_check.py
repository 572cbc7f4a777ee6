"""Quantized regions are checked piece by piece; values that fill masks do not widen the tolerance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kits.checking.faulty_backend import NAME, Fault, register
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.checking.comparison import compared
from annotated_region.checking.pieces import pieces_of
from annotated_region.checking.program import CheckedProgram
from annotated_region.checking.tolerance import Tolerance
from annotated_region.passes.pipeline import placed_module
from annotated_region.testing.registry import temporary_registrations

OPS = ("relax.quantize", "relax.dequantize", "relax.multiply", "relax.nn.relu", "relax.add")
STEP = 0.05


@pytest.fixture(autouse=True)
def _apart():
    with temporary_registrations():
        yield


@I.ir_module
class Quantized:
    """Four quantizations; behind the third most of what came before is a small part of a sum."""

    @R.function
    def main(x: R.Tensor((4, 16), "float32"), y: R.Tensor((4, 16), "float32")) -> R.Tensor(
        (4, 16), "float32"
    ):
        with R.dataflow():
            q0 = R.quantize(x, R.const(0.05, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            d0 = R.dequantize(q0, R.const(0.05, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            m = R.multiply(d0, R.const(0.5, "float32"))
            q1 = R.quantize(m, R.const(0.025, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            d1 = R.dequantize(q1, R.const(0.025, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            r = R.nn.relu(d1)
            e = R.multiply(y, R.const(4.0, "float32"))
            a = R.add(r, e)
            q2 = R.quantize(a, R.const(0.2, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            d2 = R.dequantize(q2, R.const(0.2, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            b = R.add(d2, e)
            q3 = R.quantize(b, R.const(0.4, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            d3 = R.dequantize(q3, R.const(0.4, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            R.output(d3)
        return d3


def checked(fault=None, **options):
    built = []
    register(OPS, fault, built)
    random = np.random.default_rng(0)
    inputs = [random.uniform(-6, 6, (4, 16)).astype("float32") for _ in range(2)]
    return ar.check(Quantized, [NAME], inputs=inputs, prepare=False, **options), built


def test_a_right_region_is_built_once_more_in_pieces():
    report, built = checked()
    assert report.ok
    assert built == [1, 5]
    assert report.regions[0].results[0].reason.startswith("int8: one step of 127 a quantization")


@pytest.mark.parametrize("kind", ["step", "clipped"])
@pytest.mark.parametrize("op", ["q0", "q1", "q2", "q3"])
def test_faults_inside_are_found_that_the_end_does_not_show(kind, op):
    report, _built = checked(Fault(kind, op))
    (region,) = report.regions
    assert not region.ok
    assert [each.name for each in report.culprit.ops] == [op]
    assert report.culprit.builds <= 2 * math.log2(14) + 4
    if op == "q0":
        assert region.results[0].ok
        assert "q0: " in str(region)


@I.ir_module
class Shared:
    """Two quantizations of one dequantized tensor."""

    @R.function
    def main(x: R.Tensor((4, 16), "int8")) -> R.Tuple(
        R.Tensor((4, 16), "int8"), R.Tensor((4, 16), "float32")
    ):
        with R.dataflow():
            d0 = R.dequantize(x, R.const(0.1, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            r = R.nn.relu(d0)
            q1 = R.quantize(r, R.const(0.1, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            m = R.multiply(d0, R.const(0.5, "float32"))
            q2 = R.quantize(m, R.const(0.1, "float32"), R.const(0, "int8"), axis=-1, out_dtype="int8")
            d2 = R.dequantize(q2, R.const(0.1, "float32"), R.const(0, "int8"), axis=-1, out_dtype="float32")
            a = R.add(d2, m)
            R.output(q1, a)
        return (q1, a)


def test_each_piece_ends_in_one_quantization_and_has_its_own_dequantizations():
    register(OPS)
    placed, session = placed_module(Shared, [NAME], prepare=False)
    (region,) = CheckedProgram.of(Shared, placed, session).regions.values()
    pieces = [[op.name for op in region.ops(nodes)] for nodes in pieces_of(region)]
    assert pieces == [["d0", "r", "q1"], ["d0", "m", "q2"], ["d2", "a"]]


def test_a_tolerance_that_is_asked_for_is_for_the_end_alone():
    report, built = checked(Fault("step", "q0"), atol=2.0)
    assert report.ok
    assert built == [1]


def test_a_dequantization_is_wrong_by_a_twentieth():
    report, _built = checked(Fault("step", "d2"))
    assert [each.name for each in report.culprit.ops] == ["d2"]


def test_less_than_a_step_of_a_sum_is_found():
    """A term that is a twentieth off moves the sum behind it by less than one of its steps."""
    report, _built = checked(Fault("step", "d1"))
    assert [each.name for each in report.culprit.ops] == ["d1"]
    (found,) = [result for result in report.regions[0].results if result.name == "q2"]
    assert found.failure
    assert found.reason == "int8: half a step of rounding, and 0.017 of arithmetic before it"
    assert 0.52 < found.absolute < 1.25


@pytest.mark.parametrize("fill", [-3.4028235e38, -1e9])
def test_what_masks_are_filled_with_is_not_the_largest_value(fill):
    wanted = np.array([1.0, 2.0, fill, fill], "float32")
    found = np.array([1.5, 2.0, fill, fill], "float32")
    tolerance = Tolerance(1e-3, 0.0, 1e-3, "float32")
    result = compared("scores", found, wanted, tolerance)
    assert (result.wrong, result.where) == (1, (0,))
    assert result.relative == pytest.approx(0.25)
    assert compared("scores", wanted, wanted, tolerance).ok
    single = np.array([1.0, 2.0, fill], "float32")
    assert compared("large", single + np.float32(0.5), single, tolerance).ok
