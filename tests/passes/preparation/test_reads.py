"""Readers of values, and dead bindings."""

# TVMScript is no Python that a type checker understands:
# mypy: disable-error-code="valid-type, untyped-decorator, misc, no-untyped-def, index"

from __future__ import annotations

import random

import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.passes.preparation.preparation_kit import module
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from annotated_region.passes import PrepareForInference
from annotated_region.passes.preparation.reads import (
    WHOLE,
    reads_of,
    with_fields_read_directly,
    without_dead_bindings,
)

op = relax.op


def test_reads_name_the_field_and_repeat() -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    pair = relax.Var("pair", relax.TupleType([x.ty, x.ty]))
    assert list(reads_of(op.add(x, x))) == [(x, WHOLE), (x, WHOLE)]
    assert list(reads_of(relax.TupleGetItem(pair, 1))) == [(pair, 1)]
    assert list(reads_of(relax.Tuple([x, pair]))) == [(x, WHOLE), (pair, WHOLE)]
    assert list(reads_of(op.concat([x, x]))) == [(x, WHOLE), (x, WHOLE)]


def _largest(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    """The largest elements, whose tuple is packed again before its first field is read."""
    found = builder.emit(op.topk(x, 1, ret_type="both"))
    fields = [builder.emit(relax.TupleGetItem(found, index)) for index in (0, 1)]
    again = builder.emit(relax.Tuple(fields))
    return op.subtract(x, builder.emit(relax.TupleGetItem(again, 0)))


def test_a_tuple_that_is_packed_again_is_left_out() -> None:
    prepared = PrepareForInference()(module(_largest, x=(2, 7)))
    values = [binding.value for binding in prepared["main"].body.blocks[0].bindings]
    assert not any(isinstance(value, relax.Tuple) for value in values)
    assert sum(isinstance(value, relax.TupleGetItem) for value in values) == 1


def test_a_function_whose_tuples_are_unknown_is_itself() -> None:
    function = module(lambda _builder, x: op.nn.relu(op.topk(x, 1)[0]), x=(2, 7))["main"]
    assert with_fields_read_directly(function).same_as(function)


@I.ir_module
class Branches:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            used = R.tanh(x)
            dead = R.exp(x)
            dead_too = R.add(dead, used)  # noqa: F841
            R.output(used)
        _ = R.print(x, format="{}")
        unread = R.sin(x)  # noqa: F841
        if c:  # noqa: SIM108
            y = R.nn.relu(used)
        else:
            y = R.cos(x)
        return y


def test_dead_bindings_of_dataflow_blocks_go_and_ordinary_ones_stay() -> None:
    alive = without_dead_bindings(Branches["main"])
    relax.analysis.well_formed(tvm.IRModule({"main": alive}))
    dataflow, ordinary = alive.body.blocks
    assert [binding.var.name for binding in dataflow.bindings] == ["used"]
    assert len(ordinary.bindings) == len(Branches["main"].body.blocks[1].bindings)


def test_a_function_without_dead_bindings_is_itself() -> None:
    function = module(lambda _builder, x: op.nn.relu(op.tanh(x)), x=(2,))["main"]
    assert without_dead_bindings(function).same_as(function)


@pytest.mark.parametrize("read", [True, False])
def test_a_match_cast_stays_because_it_checks(read: bool) -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        cast = builder.match_cast(x, relax.TensorType((2,), "float32"))
        return op.nn.relu(cast if read else x)

    function = module(body, x=("n",))["main"]
    assert without_dead_bindings(function).same_as(function)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_what_stays_is_what_tvm_leaves(seed: int) -> None:
    choose = random.Random(seed)

    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        values = [x]
        for _ in range(choose.randrange(12)):
            values.append(builder.emit(op.add(choose.choice(values), choose.choice(values))))
        return op.nn.relu(choose.choice(values))

    mod = module(body, x=(2,))
    alive = without_dead_bindings(mod["main"])
    expected = relax.transform.DeadCodeElimination()(mod)
    tvm.ir.assert_structural_equal(alive, expected["main"], map_free_vars=True)
