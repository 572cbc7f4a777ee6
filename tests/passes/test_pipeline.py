"""The whole pipeline: deterministic, in TVM's Sequential, leaving its input alone."""

import os
import subprocess
import sys

import pytest
import tvm
from hypothesis import given
from tvm import relax

import annotated_region as ar
from annotated_region.passes.pipeline import placement_passes
from annotated_region.testing import function_strategies
from annotated_region.testing.graphs import TWO_RESOLUTIONS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("other", "relax.tanh", "relax.add")
        yield


def test_the_passes_run_in_a_sequential_and_are_seen_by_instruments():
    seen = []

    @tvm.ir.instrument.pass_instrument
    class Names:
        def run_before_pass(self, _mod, info):
            seen.append(info.name)

    passes = placement_passes(["sketch"])
    with tvm.transform.PassContext(instruments=[Names()]):
        tvm.transform.Sequential([*passes, ar.passes.PartitionGraph()])(module_of(TWO_RESOLUTIONS))
    wanted = ["AnnotateTarget", "MergeCompilerRegions", "ResolveConflicts", "MergeCompilerRegions"]
    wanted.append("PartitionGraph")
    assert [name for name in seen if name in wanted] == wanted


def in_a_sequential(mod, targets):
    passes = [*placement_passes(targets), ar.passes.PartitionGraph()]
    return tvm.transform.Sequential(passes)(mod)


@pytest.mark.campaign
@given(function_strategies.functions(function_strategies.Ingredients()))
def test_passes_one_by_one_give_what_partition_gives(func):
    mod = tvm.IRModule({"main": func})
    with temporary_registrations():
        claim_ops("alpha", "relax.nn.relu", "relax.add", "relax.split", "relax.concat")
        claim_ops("beta", "relax.negative", "relax.add", "relax.split", "relax.tanh")
        at_once = ar.partition(mod, ["alpha", "beta"], prepare=False)
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
    with pytest.raises(ar.InvalidModuleError, match=r"expected a tvm\.IRModule"):
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
    texts = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert "Codegen" in texts[0]
