"""Profiles: saved, compared, and added to placement reports."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from kits.reports.equal_regions import EqualRegions
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.drawing.colours import heat
from annotated_region.profiling.parts import KernelTime, RegionTime
from annotated_region.profiling.times import Profile
from annotated_region.targets.backend import StepTime
from annotated_region.testing.registry import claim_ops, temporary_registrations

SLOW = RegionTime("t_main_0", "t", 2, 0.008, 512, 512, (StepTime("relu", 0.001),), ("a", "b"))
FAST = RegionTime("t_main_1", "t", 1, 0.001, 512, 512, (), ("g",))
PROFILE = Profile(0.010, (SLOW, FAST), (KernelTime("softmax", 2, 0.0005),), 0.0001, 10, 1 << 20)


class Costs:
    def launch(self, _target):
        return 0.0

    def compute(self, target, _unit):
        return 0.5 if target == "host" else 0.003

    def transfer(self, _size, _source, _destination):
        return 0.0


@pytest.fixture
def report():
    with temporary_registrations():
        claim_ops("t", "relax.nn.relu", "relax.add", "relax.multiply")
        yield ar.explain(EqualRegions, ["t"], ar.LeastCost(Costs()), prepare=False)


def test_a_profile_that_is_read_is_the_same():
    again = Profile.from_json(PROFILE.to_json())
    assert again == PROFILE
    assert str(again) == str(PROFILE)
    assert json.loads(PROFILE.to_json())["sum"] == pytest.approx(PROFILE.sum)


def test_the_sum_is_of_regions_kernels_and_the_machine():
    assert PROFILE.sum == pytest.approx(0.008 + 0.001 + 0.0005 + 0.0001)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.pop("regions"), r"the profile has no field 'regions'"),
        (lambda plain: plain.update(kind="check"), r"of the kind 'check', not 'profile'"),
        (lambda plain: plain["regions"][0].update(calls=-1), r"regions\[0\].calls is -1, .* an integer"),
        (lambda plain: plain["host"][0].update(seconds="1"), r"host\[0\].seconds is '1', .* a number"),
    ],
)
def test_documents_that_are_no_profile_are_refused(change, message):
    plain = PROFILE.to_dict()
    change(plain)
    with pytest.raises(ar.DocumentError, match=message):
        Profile.from_json(json.dumps(plain))


def test_two_profiles_are_compared():
    later = replace(PROFILE, total=0.007, regions=(replace(SLOW, seconds=0.005), FAST), host=())
    found = PROFILE.diff(later)
    assert found.total.seconds == pytest.approx(-0.003)
    assert [change.name for change in found.changes] == ["t_main_0", "softmax"]
    assert "-3.000 ms  t_main_0, 8.000 ms before, 5.000 ms now" in str(found)
    assert "-0.500 ms  softmax, gone" in str(found)
    assert json.loads(found.to_json())["changes"][1]["after"] is None


def test_the_report_has_the_times_of_its_regions(report):
    """The equal regions share a function, and its time."""
    (function,) = PROFILE.beside(report).functions
    told = [(region.symbol, region.seconds, region.expected) for region in function.regions]
    assert told == [("t_main_0", 0.004, 0.006), ("t_main_0", 0.004, 0.006), ("t_main_1", 0.001, 0.003)]
    assert "t: region 0 (t_main_0) takes 4 ms, 6 ms expected of its ops" in str(PROFILE.beside(report))


def test_a_timed_report_is_kept_and_drawn(report, tmp_path):
    timed = PROFILE.beside(report)
    assert ar.Report.from_json(timed.to_json()).functions[0].regions == timed.functions[0].regions
    assert "seconds" not in report.to_json()
    page = timed.draw(tmp_path / "time.html").read_text()
    assert "Regions have the colour of their time" in page
    assert page.count(heat(0.004, 0.004)) >= 2
    assert heat(0.001, 0.004) in page
    assert "4 ms, 6 ms expected" in page
    assert heat(0.004, 0.004) not in report.draw(tmp_path / "plain.html").read_text()


@I.ir_module
class Unequal:
    """Two regions of the same ops, on other types."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((8,), "float32"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.sum(a, axis=[0])
            c = R.nn.relu(b)
            R.output(c)
        return c


def test_regions_of_the_same_ops_on_other_types_keep_their_times():
    large = RegionTime("t_main_0", "t", 1, 0.008, 128, 128, (), ("a",))
    small = RegionTime("t_main_1", "t", 1, 0.001, 32, 32, (), ("c",))
    with temporary_registrations():
        claim_ops("t", "relax.nn.relu")
        report = ar.explain(Unequal, ["t"], prepare=False)
    (function,) = replace(PROFILE, regions=(large, small)).beside(report).functions
    told = [(region.symbol, region.seconds) for region in function.regions]
    assert told == [("t_main_0", 0.008), ("t_main_1", 0.001)]


def test_a_report_on_another_module_is_refused(report):
    other = replace(PROFILE, regions=(replace(FAST, ops=("z",)),))
    with pytest.raises(ar.UsageError, match=r"the region 't_main_1' of the profile is not in the report"):
        other.beside(report)
