"""Sessions: regions handed from pass to pass, notes, errors as they were raised, and passes as values."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import tvm

import annotated_region as ar
from annotated_region.notes import ApartNote, ClaimNote, DeclineNote, PolicyNote
from annotated_region.passes.pipeline import placement_passes
from annotated_region.passes.region_session import RegionSession
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        yield


def test_each_function_is_read_once_and_never_written(monkeypatch):
    counts = {"read": 0, "written": 0}
    read, annotate = AnnotatedRegionSet.__init__, AnnotatedRegionSet.annotate

    def counted_read(self, *arguments, **options):
        counts["read"] += 1
        read(self, *arguments, **options)

    def counted_annotate(self):
        counts["written"] += 1
        return annotate(self)

    monkeypatch.setattr(AnnotatedRegionSet, "__init__", counted_read)
    monkeypatch.setattr(AnnotatedRegionSet, "annotate", counted_annotate)
    ar.partition(module_of(SIX_OPS), ["sketch"], prepare=False)
    assert counts == {"read": 1, "written": 0}
    ar.explain(module_of(SIX_OPS), ["sketch"], prepare=False)
    assert counts == {"read": 2, "written": 0}


def test_a_function_that_changed_between_passes_is_read_again():
    session = RegionSession()
    first = session.run([ar.passes.AnnotateTarget(["sketch"])], module_of(SIX_OPS))
    other = module_of({"only": ("relax.nn.relu", ("x",))})
    changed = first.clone()
    changed.update_func(changed.get_global_var("main"), other["main"])
    (regions,) = session.take(changed).values()
    assert len(regions) == 0
    (regions,) = session.take(first).values()
    assert len(regions) == 4


def test_a_session_may_keep_to_some_functions():
    func = module_of(SIX_OPS)["main"].without_attr("global_symbol")
    mod = tvm.IRModule({"one": func, "other": func})
    session = RegionSession(only=["other"])
    passes = [*placement_passes(["sketch"]), ar.passes.PartitionGraph()]
    partitioned = session.run(passes, mod)
    assert partitioned["one"].same_as(mod["one"])
    assert not partitioned["other"].same_as(mod["other"])


def test_notes_come_in_the_order_of_the_passes():
    session = RegionSession(keeps_notes=True)
    session.run(placement_passes(["sketch"]), module_of(SIX_OPS))
    kinds = list(dict.fromkeys(type(note) for note in session.notes["main"]))
    assert kinds == [ClaimNote, DeclineNote, ApartNote, PolicyNote]
    assert isinstance(session.notes["main"][-1], ApartNote)


def test_notes_that_are_not_kept_are_not_made():
    class Costly(ar.UnitCost):
        """Counts the units that it is asked for."""

        asked = 0

        def compute(self, target, unit):
            Costly.asked += 1
            return super().compute(target, unit)

    ar.partition(module_of(SIX_OPS), ["sketch"], ar.LeastCost(Costly()), prepare=False)
    without = Costly.asked
    ar.explain(module_of(SIX_OPS), ["sketch"], ar.LeastCost(Costly()), prepare=False)
    # The report also tells what each of the four claimed ops costs on the host and on the target.
    assert Costly.asked == 2 * without + 8


class StrangerError(Exception):
    """TVM does not know this type, and would make a RuntimeError of it."""


@pytest.mark.parametrize("error", [StrangerError, KeyboardInterrupt, SystemExit])
def test_an_error_in_a_pass_comes_as_it_was_raised(error):
    class Failing:
        """A policy with a defect."""

        def resolve(self, _regions, _pinned):
            try:
                dict[str, int]()["a key"]
            except KeyError as cause:
                raise error("a defect") from cause

    for run in (ar.partition, ar.explain):
        with pytest.raises(error, match="a defect") as raised:
            run(module_of(SIX_OPS), ["sketch"], Failing(), prepare=False)
        assert isinstance(raised.value.__cause__, KeyError)
        assert raised.traceback[-1].name == "resolve"


def test_an_error_of_an_instrument_stays_one():
    @tvm.ir.instrument.pass_instrument
    class Failing:
        def run_after_pass(self, _mod, _info):
            raise ValueError("an instrument with a defect")

    with (
        pytest.raises(ValueError, match="an instrument with a defect"),
        tvm.transform.PassContext(instruments=[Failing()]),
    ):
        ar.partition(module_of(SIX_OPS), ["sketch"], prepare=False)


PASSES: dict[str, Callable[[], tvm.ir.transform.Pass]] = {
    "AnnotateTarget": lambda: ar.passes.AnnotateTarget("sketch"),
    "AppendInPlace": lambda: ar.passes.AppendInPlace("main", {"past": 1}),
    "InlinePartitions": ar.passes.InlinePartitions,
    "LegalizeWithOpInfo": ar.passes.LegalizeWithOpInfo,
    "MergeCompilerRegions": lambda: ar.passes.MergeCompilerRegions(siblings=True),
    "PartitionGraph": ar.passes.PartitionGraph,
    "PlanLayout": lambda: ar.passes.PlanLayout("sketch"),
    "PrepareForInference": ar.passes.PrepareForInference,
    "Quantize": lambda: ar.passes.Quantize([{"x": np.ones(3, "float32")}]),
    "QuantizeWeights": lambda: ar.passes.QuantizeWeights(bits=8, group=128),
    "RaiseToOps": ar.passes.RaiseToOps,
    "ReadOrigins": ar.passes.ReadOrigins,
    "FuseTIRWithOpInfo": ar.passes.FuseTIRWithOpInfo,
    "ResolveConflicts": lambda: ar.passes.ResolveConflicts(ar.Priority(["sketch"]), bans={"relax.add": "a"}),
    "TransformLayout": lambda: ar.passes.TransformLayout({"relax.nn.conv2d": "NHWC"}),
    "WriteOrigins": ar.passes.WriteOrigins,
}


def test_every_pass_is_tried():
    assert sorted(PASSES) == sorted(ar.passes.__all__)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_a_frozen_value_that_tells_its_options(name):
    made = PASSES[name]()
    assert isinstance(made, tvm.ir.transform.Pass)
    assert made.info.name == name
    assert repr(made).startswith(f"{name}(")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.__getattr__("__setattr__")("targets", ())


def test_options_are_read_as_attributes():
    assert ar.passes.AnnotateTarget("sketch").targets == ("sketch",)
    assert repr(ar.passes.MergeCompilerRegions(siblings=True, max_nodes=3)) == (
        "MergeCompilerRegions(siblings=True, max_nodes=3, max_regions=None)"
    )
