"""The whole pipeline: deterministic, in TVM's Sequential, leaving its input alone."""

from functools import partial

import pytest
import tvm
from hypothesis import given
from kits.hash_seeds import outputs_of
from tvm import relax

import annotated_region as ar
from annotated_region.passes import prepare_for_inference
from annotated_region.passes.pipeline import placement_passes
from annotated_region.testing import function_strategies
from annotated_region.testing.graphs import TWO_RESOLUTIONS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

# Both targets claim the sum.
CONFLICT = {"a": ("relax.add", ("x", "x"))}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("other", "relax.tanh", "relax.add")
        yield


OURS = [
    "PrepareForInference",
    "AnnotateTarget",
    "MergeCompilerRegions",
    "ResolveConflicts",
    "MergeCompilerRegions",
    "PartitionGraph",
]


def test_a_module_is_looked_through_once_for_what_is_not_well_formed(monkeypatch):
    """Deriving all types anew takes a tenth of a partition; tests do it behind preparation, too."""
    real, seen = relax.analysis.well_formed, []

    def counted(mod):
        seen.append(mod)
        real(mod)

    monkeypatch.setattr(relax.analysis, "well_formed", counted)
    monkeypatch.setattr(prepare_for_inference, "is_checking", lambda: False)
    mod = module_of(TWO_RESOLUTIONS)
    ar.partition(mod, ["sketch"])
    assert [each.same_as(mod) for each in seen] == [True]


@tvm.ir.instrument.pass_instrument
class Watcher:
    """Notes each pass of ours with the text of the module behind it, and skips some by name."""

    def __init__(self, skipped=()):
        self.skipped = skipped
        self.began = []
        self.left = []

    def should_run(self, _mod, info):
        return info.name not in self.skipped

    def run_before_pass(self, _mod, info):
        if info.name in OURS:
            self.began.append(info.name)

    def run_after_pass(self, mod, info):
        if info.name in OURS:
            self.left.append((info.name, mod.script()))


def in_a_sequential(mod, targets):
    passes = [*placement_passes(targets), ar.passes.PartitionGraph()]
    return tvm.transform.Sequential([ar.passes.PrepareForInference(targets=targets), *passes])(mod)


def calls_in(mod):
    """How many calls of external functions there are."""
    values = (binding.value for block in mod["main"].body.blocks for binding in block.bindings)
    return sum(isinstance(getattr(value, "op", None), tvm.ir.GlobalVar) for value in values)


def watched(run, skipped=()):
    watcher = Watcher(skipped)
    with tvm.transform.PassContext(instruments=[watcher]):
        return run(), watcher


@pytest.mark.parametrize("run", [ar.partition, in_a_sequential])
def test_instruments_see_each_pass_in_order(run):
    _result, watcher = watched(lambda: run(module_of(TWO_RESOLUTIONS), ["sketch", "other"]))
    assert watcher.began == OURS


def test_explaining_runs_the_same_passes_but_for_the_last():
    _report, watcher = watched(lambda: ar.explain(module_of(TWO_RESOLUTIONS), ["sketch", "other"]))
    assert watcher.began == OURS[:-1]


def test_what_instruments_see_of_partition_is_what_passes_leave_one_by_one():
    mod = module_of(TWO_RESOLUTIONS)
    result, at_once = watched(lambda: ar.partition(mod, ["sketch", "other"]))
    _result, one_by_one = watched(lambda: in_a_sequential(mod, ["sketch", "other"]))
    assert at_once.left == one_by_one.left
    assert "compiler_begin" in dict(at_once.left)["AnnotateTarget"]
    assert result.script() == ar.partition(mod, ["sketch", "other"]).script()


def test_what_an_instrument_skips_is_not_done():
    mod = module_of(TWO_RESOLUTIONS)
    partition = partial(ar.partition, mod, ["sketch"], prepare=False)
    unmerged, watcher = watched(partition, ["MergeCompilerRegions"])
    assert watcher.began == ["AnnotateTarget", "ResolveConflicts", "PartitionGraph"]
    assert calls_in(unmerged) > calls_in(partition())
    apart, _watcher = watched(partition, ["PartitionGraph"])
    assert apart.script() == tvm.transform.Sequential(placement_passes(["sketch"]))(mod).script()
    assert "compiler_begin" in apart.script()
    nothing, _watcher = watched(partition, ["AnnotateTarget"])
    assert nothing.script() == mod.script()


def test_a_pass_context_may_disable_passes():
    mod = module_of(TWO_RESOLUTIONS)
    with tvm.transform.PassContext(disabled_pass=["PartitionGraph"]):
        disabled = ar.partition(mod, ["sketch"], prepare=False)
    assert disabled.script() == tvm.transform.Sequential(placement_passes(["sketch"]))(mod).script()


def test_a_conflict_that_was_not_resolved_is_an_error():
    with pytest.raises(ar.OverlappingRegionsError, match="run ResolveConflicts first"):
        watched(lambda: ar.partition(module_of(CONFLICT), ["sketch", "other"]), ["ResolveConflicts"])


@pytest.mark.campaign
@given(function_strategies.functions(function_strategies.Ingredients()))
def test_passes_one_by_one_give_what_partition_gives(func):
    mod = tvm.IRModule({"main": func})
    with temporary_registrations():
        claim_ops("alpha", "relax.nn.relu", "relax.add", "relax.split", "relax.concat")
        claim_ops("beta", "relax.negative", "relax.add", "relax.split", "relax.tanh")
        at_once = ar.partition(mod, ["alpha", "beta"])
        one_by_one = in_a_sequential(mod, ["alpha", "beta"])
    assert at_once.script() == one_by_one.script()


def test_partition_leaves_its_input_alone():
    mod = module_of(TWO_RESOLUTIONS)
    before = mod.script()
    partitioned = ar.partition(mod, ["sketch", "other"], prepare=False)
    relax.analysis.well_formed(partitioned)
    assert mod.script() == before
    assert "annotation" not in partitioned.script()


def test_one_target_may_be_named_without_a_list():
    mod = module_of(TWO_RESOLUTIONS)
    listed = ar.partition(mod, ["sketch"], prepare=False)
    assert ar.partition(mod, "sketch", prepare=False).script() == listed.script()


def test_an_unknown_target_is_an_error_before_anything_runs():
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'nobody'"):
        ar.partition(module_of(TWO_RESOLUTIONS), ["sketch", "nobody"])


@pytest.mark.parametrize("wrong", [None, "main", relax.const(1.0)])
def test_what_is_no_module_is_an_error(wrong):
    with pytest.raises(ar.InvalidModuleError, match=r"the argument mod is .*pass an IRModule"):
        ar.partition(wrong, ["sketch"])


PROGRAM = """
import annotated_region as ar
from annotated_region.testing import function_strategies
from annotated_region.testing.graphs import TWO_RESOLUTIONS, module_of
from annotated_region.testing.registry import claim_ops
claim_ops("sketch", "relax.nn.relu", "relax.add")
claim_ops("other", "relax.tanh", "relax.add")
mod = module_of(TWO_RESOLUTIONS)
print(ar.passes.MergeCompilerRegions()(ar.passes.AnnotateTarget(["sketch", "other"])(mod)).script())
print(ar.partition(mod, ["sketch", "other"]).script())
print(ar.explain(mod, ["sketch", "other"]).to_json())
"""


def test_the_same_text_comes_out_whatever_the_hash_seed():
    texts = outputs_of(PROGRAM)
    assert texts[0] == texts[1]
    assert "Codegen" in texts[0]
