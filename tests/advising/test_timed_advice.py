"""Timed advice: the models that are built and timed are those that `partition` makes with the claims."""

import json
import math

import pytest
import tvm
from kits import toy_backend
from kits.command_line.command_line_kit import called
from tvm import relax

import annotated_region as ar
from annotated_region.advising import timed_model
from annotated_region.costs.model import PlacementTimes
from annotated_region.measuring.timing import Time
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

OFF = "switched off"
GRAPH = {
    "a": ("relax.nn.relu", ("x",)),
    "b": ("relax.negative", ("a",)),
    "c": ("relax.add", ("b", "x")),
    "d": ("relax.negative", ("c",)),
    "e": ("relax.tanh", ("d",)),
    "f": ("relax.nn.relu", ("e",)),
}


@pytest.fixture(autouse=True)
def toy():
    """A target whose code generator can run more than its rules claim."""
    with temporary_registrations():
        toy_backend.register()
        claim_ops("toy", "relax.negative", answer=OFF)
        yield "toy"


@pytest.fixture
def clock(monkeypatch):
    """Records what is built; a run takes as many seconds as there are ops in `main`."""
    built = []

    def compiled(mod):
        built.append(mod)
        return real(mod)

    def times(runs, _clock):
        lengths = [len(mod["main"].body.blocks[0].bindings) for mod in (built[0], built[-1])]
        assert len(runs) == 2
        return [Time(float(length), 0.25) for length in lengths]

    real = timed_model.compile_for_host
    monkeypatch.setattr(timed_model, "compile_for_host", compiled)
    monkeypatch.setattr(timed_model, "time_in_turn", times)
    return built


def about(advice, op):
    return max((each for each in advice if each.op == op), key=lambda each: len(each.ops))


def test_what_is_timed_is_what_partition_makes_with_the_rule_off_and_on(clock):
    mod = module_of(GRAPH)
    off = ar.partition(mod, ["toy"])
    (first, *_others) = ar.advise(mod, ["toy"], measure=1)
    claim_ops("toy", "relax.negative")
    on = ar.partition(mod, ["toy"])
    tvm.ir.assert_structural_equal(clock[0], off)
    tvm.ir.assert_structural_equal(clock[1], on)
    lengths = [float(len(each["main"].body.blocks[0].bindings)) for each in (off, on)]
    assert [first.seconds_before, first.seconds_after] == lengths
    assert (first.op, first.ops) == ("relax.negative", ("main/b", "main/d"))
    assert (first.seconds_saved, first.doubt) == (lengths[0] - lengths[1], sum(lengths) / 4)
    assert first.why_estimated is None
    assert "us saved (measured, +- " in str(first)


def test_models_run_and_their_times_are_positive():
    advice = about(ar.advise(module_of(GRAPH), ["toy"], measure=1), "relax.negative")
    assert advice.why_estimated is None
    assert advice.seconds_before > 0
    assert advice.seconds_after > 0
    assert advice.doubt >= 0


def test_what_the_code_generator_cannot_build_stays_an_estimate():
    mod = module_of(GRAPH)
    estimated = about(ar.advise(mod, ["toy"]), "relax.tanh")
    asked = about(ar.advise(mod, ["toy"], measure=64), "relax.tanh")
    assert (asked.seconds_before, asked.seconds_after) == (
        estimated.seconds_before,
        estimated.seconds_after,
    )
    assert asked.doubt is None
    assert asked.why_estimated
    assert asked.why_estimated != estimated.why_estimated
    assert "us saved (estimated)" in str(asked)


def test_only_as_many_are_built_as_are_asked_for(clock):
    mod = module_of(GRAPH)
    assert all(each.doubt is None for each in ar.advise(mod, ["toy"]))
    assert all(each.doubt is None for each in ar.advise(mod, ["toy"], measure=0))
    assert clock == []
    advice = ar.advise(mod, ["toy"], measure=1)
    assert [each.why_estimated for each in advice].count(None) == 1
    assert len(clock) == 2


def test_the_model_as_it_is_is_built_once_for_all_changes(clock):
    mod = module_of({"a": ("relax.negative", ("x",)), "b": ("relax.subtract", ("a", "x"))})
    claim_ops("toy", "relax.subtract", answer=OFF)
    advice = ar.advise(mod, ["toy"], measure=64)
    assert [each.why_estimated for each in advice] == [None, None]
    assert len(clock) == 3


def test_times_of_several_models_add_up_over_those_with_the_ops(clock):
    alike = {"a": ("relax.negative", ("x",)), "b": ("relax.nn.relu", ("a",))}
    mods = [module_of(alike), module_of({"a": ("relax.nn.relu", ("x",))}), module_of(alike)]
    (one,) = [each for each in ar.advise(mods, ["toy"], measure=64) if len(each.ops) == 2]
    assert one.ops == ("0/main/a", "2/main/a")
    assert len(clock) == 4
    assert one.doubt == (one.seconds_before + one.seconds_after) / 4


def test_what_differs_by_less_than_runs_vary_is_said_to():
    values = ("toy", OFF, "relax.negative", ("main/a",), 1, 1, 1, 0, 2, 2)
    assert ar.Advice(*values, 1.0, 0.9, 0.1001, "").is_within_doubt
    assert not ar.Advice(*values, 1.0, 0.9, 0.0999, "").is_within_doubt
    assert not ar.Advice(*values, 1.0, 1.0, None, "no model was built").is_within_doubt


def test_a_model_with_symbolic_extents_says_why_it_is_not_timed():
    builder = relax.BlockBuilder()
    count = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((count, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.negative(x)))
        builder.emit_func_output(out)
    (only,) = ar.advise(builder.get(), ["toy"], measure=1)
    assert only.doubt is None
    assert "the extents 'n' are symbolic" in str(only.why_estimated)


def test_a_module_without_main_says_why_it_is_not_timed():
    mod = module_of(GRAPH)
    other = tvm.IRModule({"other": mod["main"].with_attr("global_symbol", "other")})
    (first, *_others) = ar.advise(other, ["toy"], measure=1)
    assert "no function main" in str(first.why_estimated)


class Whole(ar.UnitCost):
    """A cost model that could run whole placements, as `MeasuredCost` does."""

    def doubt(self, _target, _unit):
        return 0.0

    def first_of_fastest(self, _graph, placements):
        return PlacementTimes(0, (math.inf,) * len(placements))


def test_under_a_cost_model_that_measures_changes_are_timed_by_default(clock):
    assert ar.advise(module_of(GRAPH), ["toy"], ar.LeastCost(ar.UnitCost()))
    assert clock == []
    advice = ar.advise(module_of(GRAPH), ["toy"], ar.LeastCost(Whole()))
    assert about(advice, "relax.negative").why_estimated is None


def test_a_negative_number_of_changes_is_refused():
    with pytest.raises(ar.UsageError, match="the argument measure is -1"):
        ar.advise(module_of(GRAPH), ["toy"], measure=-1)


def test_the_command_measures(tmp_path, clock):
    path = tmp_path / "model.py"
    path.write_text(module_of(GRAPH).script())
    told = called("advise", path, "--targets", "toy", "--measure", "1", "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)["advice"]
    assert [each["why_estimated"] for each in found].count(None) == 1
    (one,) = [each for each in found if each["doubt"] is not None]
    assert one["seconds_saved"] == one["seconds_before"] - one["seconds_after"]
    assert len(clock) == 2
