"""PartitionGraph: the names of external functions, and that the same text comes out in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from kits.passes.partition_kit import claimed, external, partitioned, register_targets
from kits.passes.partition_modules import Before
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

import annotated_region as ar
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


def test_names_are_numbered_in_program_order_for_each_caller():
    part = partitioned(Before, alpha=["a", "d"], beta=["b", "c"])
    assert sorted(external(part)) == ["alpha_main_0", "alpha_main_1", "beta_main_0", "beta_main_1"]
    assert "relu" in str(part["alpha_main_0"])


def test_a_name_that_is_taken_is_passed_over():
    func = copy_with_new_vars(Before["main"]).with_attr("global_symbol", "alpha_main_0")
    mod = tvm.IRModule({"main": Before["main"], "alpha_main_0": func})
    assert "alpha_main_1" in external(partitioned(mod, alpha=["a b"]))


def test_a_symbol_of_code_that_was_generated_before_is_passed_over():
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    earlier = create("// made before", "cc", ["alpha_main_0"], [])
    mod = Before.with_attr("external_mods", [earlier])
    part = partitioned(mod, alpha=["a b"])
    assert sorted(external(part)) == ["alpha_main_1"]
    assert part.attrs["external_mods"][0].same_as(earlier)


@pytest.mark.parametrize(
    ("target", "function", "name"),
    [
        ("my.target-2", "main", "my_target_2_main_0"),
        ("3d", "f", "_3d_f_0"),
        ("übung", "main", "_bung_main_0"),
    ],
)
def test_names_are_identifiers(target, function, name):
    ar.register_backend(target)
    func = Before["main"].with_attr("global_symbol", function)
    part = ar.passes.PartitionGraph()(claimed(tvm.IRModule({function: func}), {function: {target: ["a b"]}}))
    assert list(external(part)) == [name]


def edited(extra_before=0, extra_in_first=0, extra_after=0):
    """Two regions of different ops, with more host ops before, more ops in the first, a region after."""
    x = relax.Var("x", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(extra_before):
                value = builder.emit(relax.op.exp(value))
            value = builder.emit(relax.op.nn.relu(value))
            for _ in range(extra_in_first):
                value = builder.emit(relax.op.nn.relu(value))
            value = builder.emit(relax.op.tanh(value))
            value = builder.emit(relax.op.add(value, value))
            for _ in range(extra_after):
                value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.tanh(value))))
            result = builder.emit_output(relax.op.tanh(value))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("edit", ["extra_before", "extra_in_first", "extra_after"])
def test_a_name_survives_edits_elsewhere(edit):
    claim_ops("alpha", "relax.nn.relu", "relax.add")
    before = external(ar.partition(edited(), ["alpha"], prepare=False))
    after = external(ar.partition(edited(**{edit: 2}), ["alpha"], prepare=False))
    assert str(before["alpha_main_1"]).count("R.add") == 1
    tvm.ir.assert_structural_equal(before["alpha_main_1"], after["alpha_main_1"])


def test_a_name_survives_a_new_function():
    mod = tvm.IRModule(
        {
            "main": Before["main"],
            "before": copy_with_new_vars(Before["main"]).with_attr("global_symbol", "before"),
        }
    )
    part = ar.passes.PartitionGraph()(
        claimed(mod, {"main": {"gamma": ["a b"]}, "before": {"gamma": ["a b"]}})
    )
    assert sorted(external(part)) == ["gamma_before_0", "gamma_main_0"]


PROGRAM = """
from kits.passes.partition_kit import partitioned, register_targets
from kits.passes.partition_modules import Symbolic
register_targets()
print(partitioned(Symbolic, alpha=["b d e", "a f"], beta=["c"]).script())
"""


def test_the_text_is_the_same_in_every_process():
    tests = Path(__file__).parents[1]
    texts = set()
    for seed in ("0", "17"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tests)}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        texts.add(done.stdout)
    assert len(texts) == 1
