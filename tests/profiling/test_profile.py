"""profile: regions, their steps, kernels of the host and the machine between them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.compilation.executable import LinkedRegion
from annotated_region.profiling import clock as clocks
from annotated_region.profiling.clock import CallClock, Span
from annotated_region.profiling.profile import _profile, _timed_steps, middle_rounds
from annotated_region.targets.backend import StepTime
from annotated_region.testing.registry import temporary_registrations

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@I.ir_module
class Mixed:
    """Two regions of dnnl with an op of the host between them."""

    @R.function
    def main(x: R.Tensor((64, 256), "float32"), w: R.Tensor((256, 256), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.bitwise_not(R.astype(b, "int32"))
            d = R.astype(c, "float32")
            e = R.matmul(d, w)
            R.output(e)
        return e


X = np.random.default_rng(0).standard_normal((64, 256)).astype("float32")
W = np.eye(256, dtype="float32")


@pytest.fixture(scope="module")
def executable():
    return ar.build(ar.partition(Mixed, ["dnnl"], bans={"relax.bitwise_not": ["dnnl"]}, min_work={"dnnl": 0}))


@needs_onednn
def test_a_profile_tells_regions_steps_and_the_host(executable):
    found = ar.profile(executable, {"w": W, "x": X}, rounds=3)
    assert sorted(region.symbol for region in found.regions) == ["dnnl_main_0", "dnnl_main_1"]
    first = next(region for region in found.regions if region.symbol == "dnnl_main_0")
    assert first.target == "dnnl"
    assert first.calls == 1
    assert first.bytes_in == X.nbytes + W.nbytes
    assert first.bytes_out >= X.nbytes
    assert any(step.name.startswith("matmul") and step.seconds > 0 for step in first.steps)
    assert sum(step.seconds for step in first.steps) > 0
    assert found.host
    assert all(kernel.seconds > 0 for kernel in found.host)
    assert found.rounds == 3
    assert found.peak_bytes > 0


@needs_onednn
def test_a_profile_is_text_and_json(executable):
    found = ar.profile(executable, [X, W], rounds=1)
    plain = json.loads(found.to_json())
    assert (plain["schema"], plain["kind"]) == (1, "profile")
    assert {region["symbol"] for region in plain["regions"]} == {"dnnl_main_0", "dnnl_main_1"}
    assert plain["sum"] == pytest.approx(found.sum)
    assert "a run, middle half of 1" in str(found)
    assert "(host)" in str(found)


@needs_onednn
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], r"1 inputs for 2 parameters: x, w"),
        ({"x": X, "v": W}, r"the inputs are called 'x', 'v'; the parameters are 'x', 'w'"),
    ],
)
def test_inputs_of_others_are_refused(executable, inputs, message):
    with pytest.raises(ar.InputError, match=message):
        ar.profile(executable, inputs)


@needs_onednn
def test_no_rounds_and_failing_runs_are_refused(executable):
    with pytest.raises(ar.InputError, match=r"0 rounds cannot be timed"):
        ar.profile(executable, [X, W], rounds=0)
    with pytest.raises(ar.RunError, match=r"the executable fails"):
        ar.profile(executable, [X[:3], W])


def test_the_rounds_in_the_middle_count():
    assert middle_rounds([5.0, 1.0, 2.0, 9.0, 3.0, 4.0, 8.0, 7.0]) == [0, 4, 5, 7]
    assert middle_rounds([2.0, 1.0, 3.0]) == [0, 1, 2]
    assert middle_rounds([2.0]) == [0]


def test_the_slowest_part_comes_first():
    """By the mean of the rounds."""
    regions = {name: LinkedRegion("t", 1) for name in ("short", "long")}
    rounds = [
        {"short": Span(1, 1.0), "long": Span(1, 5.0), "kernel": Span(1, 2.0), "slow kernel": Span(1, 1.0)},
        {"short": Span(1, 3.0), "long": Span(1, 1.0), "kernel": Span(1, 2.0), "slow kernel": Span(1, 5.0)},
    ]
    recorded = {name: (StepTime("step", 1.0),) for name in regions}
    executable: Any = SimpleNamespace(regions=regions)
    made = _profile(executable, [9.0, 11.0], [0.0, 1.0], rounds, 2, recorded)
    assert [(each.symbol, each.seconds) for each in made.regions] == [("long", 3.0), ("short", 2.0)]
    assert [(each.name, each.seconds) for each in made.host] == [("slow kernel", 3.0), ("kernel", 2.0)]
    assert (made.total, made.machine) == (10.0, 0.5)


def test_a_step_takes_the_median_of_several_runs():
    """A process that takes the processor away for milliseconds in one of them is not seen."""
    times = iter([2.0, 3.0, 900.0, 2.0, 900.0])
    with temporary_registrations():
        ar.register_backend("timed", step_times=lambda _library, _symbol: [StepTime("step", next(times))])
        ar.register_backend("other")
        targets = {"one": "timed", "two": "other"}
        runs: list[object] = []
        library: Any = None
        assert _timed_steps(targets, library, runs.append, ["argument"]) == {"one": (StepTime("step", 3.0),)}
    assert len(runs) == 5


def test_nested_calls_count_once(monkeypatch):
    """main begins at 0; the region takes 5, the kernel 3, an allocation 1, and main itself 3."""
    times = iter([0, 0, 1, 1, 6, 6, 6, 6, 9, 9, 10, 10, 11, 11, 12])
    monkeypatch.setattr(clocks, "perf_counter_ns", lambda: next(times))
    clock = CallClock({"region": LinkedRegion("dnnl", 1)})
    for name, is_before in (
        ("main", True),
        ("region", True),
        ("region", False),
        ("kernel", True),
        ("kernel", False),
        ("vm.builtin.alloc", True),
        ("vm.builtin.alloc", False),
        ("main", False),
    ):
        clock(SimpleNamespace(), name, is_before, None)
    assert {name: round(1e9 * span.seconds) for name, span in clock.kernels.items()} == {
        "region": 5,
        "kernel": 3,
    }
    assert round(1e9 * clock.machine) == 4


def test_what_was_timed_before_is_forgotten():
    clock = CallClock({})
    for is_before in (True, False):
        clock(None, "kernel", is_before, None)
    assert clock.kernels["kernel"].calls == 1
    clock.start()
    assert clock.kernels == {}
