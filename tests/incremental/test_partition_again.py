"""Partitioning an edited module again: the bytes of a full partition, with work only for edited parts."""

import os
from random import Random
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.incremental.edited_chains import UNARY, chain_of_blocks, claim_at_random
from kits.locking.edited_models import EDITS, edited
from tvm import relax
from tvm.ir.instrument import pass_instrument
from tvm.relax.utils import copy_with_new_vars

import annotated_region as ar
from annotated_region.testing.generated import CLAIMED, chain
from annotated_region.testing.registry import claim_ops, temporary_registrations

EXAMPLES = int(os.environ.get("AR_CAMPAIGN_EXAMPLES", "10"))


@pytest.fixture(autouse=True)
def _registrations():
    with temporary_registrations():
        ar.register_backend("sketch")
        yield


def require_equal(got, want):
    assert tvm_ffi.structural_equal(got, want)
    assert got.script(show_meta=True) == want.script(show_meta=True)


def row_of(steps, shape=(4,)):
    """A function of ops one behind the other."""
    value = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [value]):
        with builder.dataflow():
            for number, step in enumerate(steps):
                value = builder.emit(step(value, number))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.finalize()


def after_edit(mod, kind, random, ops):
    """The module after one edit of a kind."""
    change = edited(mod, kind, random, ops)
    assert change is not None
    return change.mod


def edits_of(mod, random, count):
    """The module after one edit after the other."""
    for _edit in range(count):
        change = edited(mod, random.choice(list(EDITS)), random, UNARY)
        if change is not None:
            mod = change.mod
            yield change


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_the_bytes_of_a_full_partition_after_each_edit(seed):
    random = Random(seed)
    targets = claim_at_random(random)
    options: dict[str, Any] = {
        "names": random.choice(["places", "numbers"]),
        "min_work": {"sketch": random.choice([0, 3])},
    }
    again = ar.IncrementalPartition(targets, **options)
    mod = chain_of_blocks(random, blocks=4, size=12)
    require_equal(again(mod), ar.partition(mod, targets, **options))
    for change in edits_of(mod, random, 8):
        require_equal(again(change.mod), ar.partition(change.mod, targets, **options))


def test_most_edits_keep_most_of_a_function():
    """Else the test above would hold of what partitions everything anew."""
    kept = done = 0
    for seed in range(4):
        random = Random(seed)
        claim_ops("sketch", "relax.add", "relax.multiply", "relax.matmul", "relax.nn.relu")
        again = ar.IncrementalPartition(["sketch"])
        mod = chain_of_blocks(random, blocks=8, size=16)
        again(mod)
        for change in edits_of(mod, random, 6):
            again(change.mod)
            kept, done = kept + again.work.kept, done + again.work.done
    assert kept > 2 * done


def test_what_is_no_module_is_refused():
    with pytest.raises(ar.UsageError, match="the argument mod is None; pass an IRModule"):
        ar.IncrementalPartition(["sketch"])(None)


def test_one_op_of_a_chain_costs_its_part():
    claim_ops("sketch", *CLAIMED)
    mod = chain(1000, gap_every=20)
    again = ar.IncrementalPartition(["sketch"])
    again(mod)
    assert again.work == again.work.__class__(kept=0, done=1001)
    after = after_edit(mod, "replace", Random(0), ["relax.nn.relu"])
    require_equal(again(after), ar.partition(after, ["sketch"]))
    assert again.work.done <= 40
    assert again.work.kept + again.work.done == 1001
    assert again.work.why_whole == ""
    again(after)
    assert again.work.done == 0


def test_rules_are_asked_about_what_was_edited_alone():
    asked = []

    @ar.register_rule("sketch", "relax.add")
    def _claims(op):
        asked.append(op)
        return True

    mod = chain(600, gap_every=20)
    again = ar.IncrementalPartition(["sketch"])
    again(mod)
    after = after_edit(mod, "constant", Random(1), [])
    asked.clear()
    again(after)
    assert 0 < len(asked) <= 60


def test_regions_that_get_another_number_are_called_by_it():
    claim_ops("sketch", "relax.add")
    again = ar.IncrementalPartition(["sketch"])
    mod = chain(200, gap_every=20)
    again(mod)
    for change in edits_of(mod, Random(5), 12):  # some take a region away, or part one in two
        require_equal(again(change.mod), ar.partition(change.mod, ["sketch"]))


def test_what_looks_over_a_cut_is_partitioned_with_it():
    """A product on the host and a product behind it fold into one: the cut between them is none."""
    claim_ops("sketch", "relax.nn.relu")

    def step(value, number):
        is_product = number % 18 in (16, 17)
        return (
            relax.op.multiply(value, relax.const(2.0, "float32")) if is_product else relax.op.nn.relu(value)
        )

    mod = row_of([step] * 90)
    again = ar.IncrementalPartition(["sketch"])
    require_equal(again(mod), ar.partition(mod, ["sketch"]))
    for change in edits_of(mod, Random(2), 10):
        require_equal(again(change.mod), ar.partition(change.mod, ["sketch"]))


OPS = (relax.op.matmul, relax.op.add, relax.op.multiply, relax.op.nn.relu)


def all_called_alike(changed):
    """Blocks of products, sums and scales, all variables with one name; one op is `changed`."""
    kind = relax.TensorType((4, 4), "float32")
    x = relax.Var("x", kind)
    weights = relax.const(np.eye(4, dtype="float32"))
    value, bindings = x, []
    for number in range(80):
        op = OPS[number % 4] if number % 20 != 19 else relax.op.tanh
        op = changed if number == 41 else op
        is_unary = op in (relax.op.nn.relu, relax.op.tanh)
        call = relax.BlockBuilder().normalize(op(value) if is_unary else op(value, weights))
        value = relax.DataflowVar("v", kind)
        bindings.append(relax.VarBinding(value, call))
    out = relax.Var("out", kind)
    bindings.append(relax.VarBinding(out, value))
    func = relax.Function([x], relax.SeqExpr([relax.DataflowBlock(bindings)], out), kind)
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return relax.transform.Normalize()(mod)


def test_variables_of_one_name_are_numbered_through_the_function():
    claim_ops("sketch", "relax.add", "relax.matmul", "relax.nn.relu")
    again = ar.IncrementalPartition(["sketch"])
    for changed in (OPS[1], OPS[2], relax.op.tanh, OPS[1]):
        mod = all_called_alike(changed)
        require_equal(again(mod), ar.partition(mod, ["sketch"]))
        assert "names" in again.work.why_whole


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
def test_an_engine(target):
    random = Random(3)
    mod = chain_of_blocks(random, blocks=3, size=20)
    again = ar.IncrementalPartition(target)
    again(mod)
    for change in edits_of(mod, random, 4):
        require_equal(again(change.mod), ar.partition(change.mod, target))


def two_functions():
    mod = chain(100, gap_every=20)
    mod["other"] = copy_with_new_vars(mod["main"]).with_attr("global_symbol", "other")
    return mod


def of_symbolic_shape():
    return row_of([lambda value, _number: relax.op.add(value, value)], (tvm.tirx.Var("n", "int64"), 4))


def with_running_sum():
    return row_of([lambda value, _number: relax.op.cumsum(value)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (two_functions, "several functions"),
        (of_symbolic_shape, "shapes are not static"),
        (with_running_sum, "relax.cumsum"),
    ],
)
def test_what_is_not_worked_on_in_parts_is_partitioned_whole(make, words):
    claim_ops("sketch", *CLAIMED)
    mod = make()
    again = ar.IncrementalPartition(["sketch"])
    for _call in range(2):
        require_equal(again(mod), ar.partition(mod, ["sketch"]))
        assert words in again.work.why_whole
        assert again.work.kept == 0


def test_another_rule_keeps_nothing():
    claim_ops("sketch", *CLAIMED)
    mod = chain(200, gap_every=20)
    again = ar.IncrementalPartition(["sketch"])
    again(mod)
    claim_ops("sketch", "relax.add", answer="no more")
    require_equal(again(mod), ar.partition(mod, ["sketch"]))
    assert again.work.kept == 0
    assert "changed" in again.work.why_whole


def test_a_policy_that_weighs_everything_is_asked_about_everything():
    claim_ops("sketch", *CLAIMED)
    mod = chain(100, gap_every=20)
    policy = ar.LeastCost(ar.UnitCost())
    again = ar.IncrementalPartition(["sketch"], policy)
    require_equal(again(mod), ar.partition(mod, ["sketch"], policy))
    assert again.work.why_whole


def test_an_instrument_sees_whole_modules():
    claim_ops("sketch", *CLAIMED)
    mod = chain(100, gap_every=20)
    seen = []

    @pass_instrument
    class _Sees:
        def run_before_pass(self, module, info):
            seen.append((info.name, len(module["main"].body.blocks[0].bindings)))

    again = ar.IncrementalPartition(["sketch"])
    again(mod)
    with tvm.transform.PassContext(instruments=[_Sees()]):
        again(mod)
    assert max(size for name, size in seen if name == "AnnotateTarget") >= 100
    assert "PassContext" in again.work.why_whole


def test_a_module_that_is_not_well_formed_is_refused_as_by_partition():
    claim_ops("sketch", *CLAIMED)
    mod = chain(100, gap_every=20)
    again = ar.IncrementalPartition(["sketch"])
    again(mod)
    block = mod["main"].body.blocks[0]
    bindings = [*block.bindings[:50], *block.bindings[51:]]  # what is taken out is read
    func = mod["main"]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], func.body.body)
    broken = tvm.IRModule({"main": relax.Function(func.params, body, func.ret_ty, attrs=func.attrs)})
    with pytest.raises(ar.InvalidModuleError):
        again(broken)
    require_equal(again(mod), ar.partition(mod, ["sketch"]))
