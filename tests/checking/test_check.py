"""check: which region is wrong, by how much, and which of its ops are to blame."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.checking.faulty_backend import NAME, Fault, register
from kits.testing import numpy_backend
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.testing.registry import temporary_registrations

OPS = ["relax.add", "relax.multiply", "relax.nn.relu", "relax.subtract", "relax.exp", "relax.matmul"]


@pytest.fixture(autouse=True)
def _apart():
    with temporary_registrations():
        yield


@I.ir_module
class Two:
    """Two regions with a softmax between them, which the target does not claim."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.subtract(b, x)
            s = R.nn.softmax(c)
            d = R.multiply(s, x)
            e = R.add(d, s)
            f = R.subtract(e, x)
            R.output(f)
        return f


def checked(mod=Two, fault=None, **options):
    register(OPS, fault)
    return ar.check(mod, [NAME], **options)


def names(report):
    return [op.name for op in report.culprit.ops]


def test_a_right_target_passes():
    report = checked()
    assert report.ok
    assert report.culprit is None
    assert [region.calls for region in report.regions] == [1, 1]
    assert str(report).endswith("2 of 2 regions are within their tolerances")
    assert report.inputs[0] == "x float32[4, 8]: normal numbers"


def test_a_program_without_regions_is_checked_as_a_whole():
    register(["relax.atan"])
    report = ar.check(Two, [NAME])
    assert report.ok
    assert not report.regions
    assert str(report).endswith("0 of 0 regions are within their tolerances")


@pytest.mark.parametrize("kind", ["scale", "saturating", "overflow", "stride", "mask", "exchanged"])
def test_a_fault_of_one_op_is_found(kind):
    report = checked(fault=Fault(kind, "f" if kind == "exchanged" else "e"))
    first, second = report.regions
    assert first.ok
    assert not second.ok
    assert names(report) == ["f" if kind == "exchanged" else "e"]
    assert report.culprit.symbol == second.symbol
    assert report.culprit.builds <= 2 * math.log2(3) + 4


def test_errors_do_not_reach_later_regions():
    report = checked(fault=Fault("scale", "b"))
    assert [region.ok for region in report.regions] == [False, True]
    assert not report.whole[0].ok


def test_a_fault_of_two_ops_is_found():
    report = checked(fault=Fault("scale", "f", needs="d"))
    assert names(report) == ["d", "f"]


@pytest.mark.parametrize(("alone", "expected"), [(OPS, ["e"]), (["relax.multiply"], ["d", "e"])])
def test_a_fault_inside_a_composite_is_its_op_if_that_is_claimed_alone(alone, expected):
    """Where the sum is claimed in the composite only, both stay together."""
    product = is_op("relax.multiply")(wildcard(), wildcard())
    register(alone, Fault("scale", "e"))
    ar.register_pattern(NAME, "faulty.multiply_add", is_op("relax.add")(product, wildcard()))
    assert names(ar.check(Two, [NAME])) == expected


def test_infinity_and_nan_are_told_apart():
    report = checked(fault=Fault("overflow", "e"))
    result = report.regions[1].results[0]
    assert result.inf > 0
    assert result.nan == 0
    assert "infinite where the reference is finite" in result.failure


def test_the_place_and_the_values_are_those_of_the_worst_value():
    x = np.ones((4, 8), "float32")
    x[2, 3] = 50.0
    report = checked(fault=Fault("scale", "b"), inputs={"x": x, "w": np.eye(8, dtype="float32")})
    result = report.regions[0].results[0]
    assert result.where == (2, 3)
    assert result.wanted == pytest.approx(0.0)
    assert result.found == pytest.approx(15.0)
    assert result.absolute == pytest.approx(15.0)


def test_a_wide_tolerance_that_is_asked_for_passes():
    assert not checked(fault=Fault("scale", "e"), rtol=1e-3).ok
    assert checked(fault=Fault("scale", "e"), atol=100.0).ok


def test_a_region_that_raises_is_told_and_bisected():
    def generate(functions, _options, _names):
        for function in functions:
            ops = [str(each.value.op.name) for block in function.body.blocks for each in block.bindings]
            region = raising(ops, len(function.params))
            tvm_ffi.register_global_func(str(function.attrs["global_symbol"]), region, override=True)
        return []

    register(OPS)
    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)
    report = ar.check(Two, [NAME], bans={"d": [NAME], "e": [NAME], "f": [NAME]})
    assert "no relu today" in report.regions[0].error
    assert names(report) == ["b"]


def raising(ops, count):
    def region(*tensors):
        if "relax.nn.relu" in ops:
            raise RuntimeError("no relu today")
        for room in tensors[count:]:
            room.copyfrom(np.zeros(room.shape, "float32"))

    return region


def test_symbolic_extents_come_from_inputs_or_from_an_option():
    @I.ir_module
    class Symbolic:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.add(a, x)
                R.output(b)
            return b

    assert checked(Symbolic, extents={"n": 5}).extents == {"n": 5}
    report = checked(Symbolic, Fault("scale", "a"), inputs=[np.ones((3, 8), "float32")])
    assert report.extents == {"n": 3}
    assert names(report) == ["a"]
    with pytest.raises(ar.InputError, match=r"the extents 'n' are symbolic.*extents=\{'n': 8\}"):
        checked(Symbolic)
    with pytest.raises(ar.InputError, match=r"no symbolic extent is called 'm'; they are 'n'"):
        checked(Symbolic, extents={"m": 3})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": np.ones((4, 8), "float32")}, r"there is no input for 'w'; the parameters are 'x', 'w'"),
        ({"x": 1, "w": 1, "z": 1}, r"no parameter is called 'z'"),
        ([np.ones((4, 8), "float32")], r"1 inputs for 2 parameters: x, w"),
        ([np.ones((4, 9), "float32"), np.ones((8, 8), "float32")], r"'x' has shape \(4, 9\); .* \(4, 8\)"),
        ([np.ones((4, 8), "float64"), np.ones((8, 8), "float32")], r"'x' is of type float64; .* float32"),
        (
            [np.ones(8, "float32"), np.ones((8, 8), "float32")],
            r"'x' has shape \(8,\); the parameter has 2 axes",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs, message):
    with pytest.raises(ar.InputError, match=message):
        checked(inputs=inputs)


def test_a_target_that_cannot_run_here_is_refused():
    register(OPS, unavailable=lambda: "no device; buy one")
    with pytest.raises(
        ar.BackendUnavailableError, match=r"'faulty' cannot be checked .*: no device; buy one"
    ):
        ar.check(Two, [NAME])


def test_an_op_that_the_host_cannot_build_is_named():
    x = relax.Var("x", relax.TensorType((4,), "bool"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.logical_not(x), "y")
            z = builder.emit_output(relax.op.negative(y), "z")
        builder.emit_func_output(z)
    register(["relax.logical_not"])
    with pytest.raises(
        ar.BuildError, match=r"the host cannot be the reference: TVM cannot build 'z' \(relax.negative"
    ):
        ar.check(builder.get(), [NAME])


def test_a_reference_that_is_none_is_refused():
    with pytest.raises(ar.UnknownTargetError, match=r"oracle"):
        checked(reference="oracle")
    with pytest.raises(ar.InputError, match=r"the reference 'faulty' is one of the targets"):
        checked(reference=NAME)
    ar.register_backend("far", unavailable=lambda: "no device; buy one")
    with pytest.raises(ar.BackendUnavailableError, match=r"'far' cannot be checked .*: no device; buy one"):
        checked(reference="far")


def test_another_target_is_the_reference():
    """It is as wrong as it is told to be, so that what TVM says is not what counts."""
    numpy_backend.register(lambda _ops, result: 2 * result, ops=["relax.add"])
    report = checked(fault=Fault("scale", "b"), reference=numpy_backend.NAME, bans={"f": [NAME]})
    assert [region.ok for region in report.regions] == [False, False]
    assert [culprit.ops[0].name for culprit in report.culprits] == ["b", "e"]
    assert report.reference == "numpy"


def test_a_report_that_is_read_says_the_same():
    report = checked(fault=Fault("overflow", "e"))
    again = ar.CheckReport.from_json(report.to_json())
    assert again == report
    assert str(again) == str(report)
    assert again.to_dict() == report.to_dict()
    with pytest.raises(ar.ReproducerError, match=r"a loaded report has no arrays; check again"):
        again.save_reproducer("fault")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.pop("regions"), r"the check has no field 'regions'"),
        (lambda plain: plain.update(kind="report"), r"of the kind 'report', not 'check'"),
        (lambda plain: plain.update(schema=7), r"schema 7"),
        (
            lambda plain: plain["regions"][1]["results"][0].update(absolute="much"),
            r"regions\[1\].results\[0\].absolute is 'much', and should be a number",
        ),
    ],
)
def test_documents_that_are_no_check_are_refused(change, message):
    plain = checked(fault=Fault("scale", "e")).to_dict()
    change(plain)
    with pytest.raises(ar.DocumentError, match=message):
        ar.CheckReport.from_json(json.dumps(plain))


def test_two_checks_are_compared():
    right, wrong = checked(), checked(fault=Fault("scale", "e"))
    assert not right.diff(checked())
    (change,) = right.diff(wrong).changes
    assert (change.symbol, change.before, change.after) == ("faulty_main_1", "right", "wrong")
    assert str(right.diff(wrong)).startswith("faulty_main_1: right became wrong; error ")
    assert wrong.diff(right).to_dict()["changes"][0]["after"] == "right"


def test_a_module_without_main_is_refused():
    mod = tvm.IRModule({"other": Two["main"].with_attr("global_symbol", "other")})
    with pytest.raises(ar.InvalidModuleError, match=r"no function main"):
        checked(mod)


def test_the_report_is_json():
    report = checked(fault=Fault("overflow", "e"))
    plain = json.loads(report.to_json())
    assert (plain["schema"], plain["kind"]) == (1, "check")
    assert plain["ok"] is False
    assert plain["culprits"][0]["ops"] == [{"name": "e", "op": "relax.add", "origin": "e"}]
    assert plain["regions"][1]["results"][0]["found"] == "inf"
    assert "e (relax.add) of faulty_main_1 on faulty" in str(report)


def test_bfloat16_regions_have_the_tolerance_of_their_type():
    x = relax.Var("x", relax.TensorType((4, 8), "bfloat16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.multiply(x, x), "y")
            z = builder.emit_output(relax.op.add(y, x), "z")
        builder.emit_func_output(z)
    right = checked(builder.get())
    assert right.ok
    assert right.regions[0].results[0].reason.startswith("bfloat16: two units of a significand of 8 bits")
    assert names(checked(builder.get(), Fault("scale", "y"))) == ["y"]
