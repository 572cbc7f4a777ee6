"""Modules on which TVM's FuseOpsByPattern ran: its composites are claims of the targets in their names."""

from collections import Counter

import numpy as np
import pytest
import tvm
from kits.host_machines import host_machine
from kits.targets.pattern_tables import (
    FEW_MODELS,
    TABLES,
    calls_of_generated,
    composites_in_regions,
    fused_by_tvm,
    merged_by_tvm,
    prepared,
    table_of,
)
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import FuseOpsByPattern
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.costs import UnitCost
from annotated_region.targets.backend import backend_of
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

MERGED = ("nnapi", "coreml", "openclml", "example_npu", "tensorrt")
"""The generators that take more than one composite a region."""


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


@pytest.fixture(scope="module")
def models():
    return {name: prepared(name) for name in FEW_MODELS}


@pytest.mark.sweep
@pytest.mark.parametrize("binds_constants", [True, False], ids=["bound", "passed"])
@pytest.mark.parametrize("target", TABLES)
def test_regions_of_given_composites_are_those_of_raw_modules_or_fewer(target, binds_constants, models):
    """And hold every composite that TVM made, whether the target's table is registered or not."""
    table = table_of(target)
    for name, mod in models.items():
        made, fused = fused_by_tvm(mod, table, binds_constants=binds_constants)
        most = merged_by_tvm(fused) if target in MERGED else made.total()
        ar.register_backend(backend_or_known(target))
        taken = ar.partition(fused, [target], prepare=False, cross_compile=True)
        assert composites_in_regions(taken) == made, name
        assert calls_of_generated(taken) <= most, name
        assert not any("Composite" in (func.attrs or {}) for func in taken.functions.values())


def backend_or_known(target):
    """The description of a target as its table would register it, without the table."""
    with temporary_registrations():
        ar.register_patterns(target, table_of(target))
        return backend_of(target)


RELU_TANH = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.tanh", ("a",)), "c": ("relax.exp", ("b",))}


def chain(*ops):
    pattern = wildcard()
    for name in ops:
        pattern = is_op(f"relax.{name}")(pattern)
    return pattern


def fused(*table, graph=RELU_TANH):
    mod = module_of(graph)
    return FuseOpsByPattern(list(table), annotate_codegen=False)(mod)


def claims_of(mod, targets, **options):
    report = ar.explain(mod, targets, prepare=False, cross_compile=True, **options)
    return {op.op: (op.placed, set(op.claims)) for each in report.functions for op in each.ops}


PAIR = ("npu.pair", chain("nn.relu", "tanh"))


def test_a_composite_is_a_claim_of_the_target_in_its_name_alone():
    """Rules and patterns of the target claim nothing of its own; other targets claim what they like."""
    claim_ops("npu", "relax.nn.relu", "relax.tanh", "relax.exp")
    claim_ops("other", "relax.tanh")
    ar.register_pattern("npu", "npu.relu", chain("nn.relu"))
    found = claims_of(fused(PAIR), ["npu", "other"])
    assert found == {
        "relax.nn.relu": ("npu", {"npu"}),
        "relax.tanh": ("npu", {"npu", "other"}),
        "relax.exp": ("npu", {"npu"}),
    }
    partitioned = ar.partition(fused(PAIR), ["npu"], prepare=False, cross_compile=True)
    assert composites_in_regions(partitioned) == Counter({"npu.pair": 1})


def test_a_composite_goes_as_a_whole():
    """What another target takes of it leaves nothing of it to its own."""
    ar.register_backend("npu")
    claim_ops("other", "relax.tanh")
    found = claims_of(fused(PAIR), ["other", "npu"])
    assert found["relax.nn.relu"] == ("host", {"npu"})
    assert found["relax.tanh"] == ("other", {"other", "npu"})


def test_composites_are_priced_by_their_names():
    seen = set()

    class Prices(UnitCost):
        def compute(self, target, unit):
            seen.add((target, unit.composite, tuple(view.name for view in unit.ops)))
            return super().compute(target, unit)

    ar.register_backend("npu")
    claims_of(fused(PAIR), ["npu"], policy=ar.LeastCost(Prices()))
    assert ("npu", "npu.pair", ("relax.nn.relu", "relax.tanh")) in seen


def test_what_its_target_does_not_get_is_opened_and_computes_the_same():
    claim_ops("other", "relax.exp", answer="not today")
    opened = ar.partition(fused(PAIR), ["other"], prepare=False)
    assert [name.name_hint for name in opened.functions] == ["main"]
    x = tvm.runtime.tensor(np.random.default_rng(0).standard_normal(shape_of(opened)).astype("float32"))
    run = host_machine(opened)["main"]
    expected = np.exp(np.tanh(np.maximum(x.numpy(), 0)))
    np.testing.assert_allclose(run(x).numpy(), expected, rtol=1e-5)


def shape_of(mod):
    return [int(extent) for extent in mod["main"].params[0].ty.shape.values]


def test_regions_of_tvm_stay_as_they_are():
    mod = module_of(RELU_TANH)
    with_codegen = FuseOpsByPattern([PAIR], annotate_codegen=True)(mod)
    claim_ops("other", "relax.exp")
    partitioned = ar.partition(with_codegen, ["other"], prepare=False, cross_compile=True)
    owners = {
        str(func.attrs["Codegen"]) for func in partitioned.functions.values() if "Codegen" in func.attrs
    }
    assert owners == {"npu", "other"}


def test_symbolic_extents_are_those_of_the_caller():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(a)
                R.output(b)
            return b

    mod = FuseOpsByPattern([PAIR], annotate_codegen=False)(Module)
    ar.register_backend("npu")
    partitioned = ar.partition(mod, ["npu"], prepare=False, cross_compile=True)
    relax.analysis.well_formed(partitioned)
    assert composites_in_regions(partitioned) == Counter({"npu.pair": 1})


# -- attributes ------------------------------------------------------------------------------------


def named_pair(getter):
    relu = chain("nn.relu")
    return ("npu.pair", is_op("relax.tanh")(relu), {"inner": relu}, None, getter)


def inner_attributes(mod):
    """The attributes of the one composite in a partitioned module."""
    (func,) = (func for func in mod.functions.values() if func.attrs and "Codegen" in func.attrs)
    values = [binding.value for block in func.body.blocks for binding in block.bindings]
    (composite,) = (value for value in values if isinstance(value, relax.Function))
    return {key: str(value) for key, value in composite.attrs.items()}


def op_inside(found):
    return {"inner": found["inner"].op.name, "version": "2"}


def test_attributes_are_those_that_the_getter_computes():
    ar.register_patterns("npu", [named_pair(op_inside)])
    partitioned = ar.partition(module_of(RELU_TANH), ["npu"], prepare=False, cross_compile=True)
    assert inner_attributes(partitioned) == {
        "Composite": "npu.pair",
        "inner": "relax.nn.relu",
        "version": "2",
    }


def test_attributes_of_given_composites_are_kept():
    table = [named_pair(op_inside)]
    ar.register_patterns("npu", table)
    partitioned = ar.partition(fused(*table), ["npu"], prepare=False, cross_compile=True)
    assert inner_attributes(partitioned) == {
        "Composite": "npu.pair",
        "inner": "relax.nn.relu",
        "version": "2",
    }


def test_attributes_that_no_pattern_computes_are_not_lost_in_silence():
    ar.register_backend("npu")
    report = ar.explain(fused(named_pair(op_inside)), ["npu"], prepare=False, cross_compile=True)
    (reason,) = {op.declines["npu"] for op in report.functions[0].ops if op.op != "relax.exp"}
    assert reason == (
        "npu.pair: the module has it as a composite with attributes that no registered pattern computes: "
        "inner, version"
    )


@pytest.mark.parametrize(
    ("getter", "said"),
    [
        (
            lambda _found: 1 / 0,
            "attrs_getter of pattern 'npu.pair' at 'b' in main failed: .*division by zero",
        ),
        (lambda _found: {"Composite": "x"}, "answered {'Composite': 'x'}; answer with names and values"),
    ],
    ids=["fails", "renames"],
)
def test_a_getter_that_is_wrong_is_told(getter, said):
    ar.register_patterns("npu", [named_pair(getter)])
    with pytest.raises(ar.RuleError, match=said):
        ar.partition(module_of(RELU_TANH), ["npu"], prepare=False, cross_compile=True)
