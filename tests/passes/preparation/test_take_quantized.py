"""What is taken of a quantized table is dequantized behind, bit by bit the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from kits.host_machines import host_machine
from kits.passes.preparation.preparation_kit import module, ops, prepare, stays
from tvm import relax

op = relax.op
TABLE = np.random.default_rng(0).integers(-128, 128, (9, 4)).astype("int8")
ONE_SCALE = np.array(0.037)
WORDS = np.array([[8, 0, 3], [3, 3, 7]])


def looked_up(
    table: np.ndarray = TABLE, scales: np.ndarray = ONE_SCALE, zero: int = -5, **attrs: Any
) -> tvm.IRModule:
    def body(_builder: relax.BlockBuilder, words: relax.Var) -> relax.Expr:
        parameters = relax.const(scales.astype("float32")), relax.const(zero, "int8")
        return op.take(op.dequantize(relax.const(table), *parameters, axis=0), words, **attrs)

    return module(body, dtype="int64", words=WORDS.shape)


def answer(mod: tvm.IRModule) -> np.ndarray:
    machine = host_machine(mod)
    result: np.ndarray = machine["main"](tvm.runtime.tensor(WORDS)).numpy()
    return result


@pytest.mark.parametrize(
    ("table", "attrs"),
    [
        (TABLE, {"axis": 0}),
        (TABLE.T, {"axis": 1, "mode": "clip"}),
        (TABLE.T, {"axis": -1, "mode": "wrap"}),
        (TABLE[:, 0], {}),
    ],
)
def test_the_table_stays_quantized(table: np.ndarray, attrs: dict[str, Any]) -> None:
    before = looked_up(np.ascontiguousarray(table), **attrs)
    after = prepare(before)
    assert [binding.value.op.name for binding in after["main"].body.blocks[0].bindings] == [
        "relax.take",
        "relax.dequantize",
    ]
    np.testing.assert_array_equal(answer(after), answer(before))


def test_of_an_unknown_number_of_words() -> None:
    def body(_builder: relax.BlockBuilder, words: relax.Var) -> relax.Expr:
        parameters = relax.const(0.5), relax.const(0, "int8")
        return op.take(op.dequantize(relax.const(TABLE), *parameters), words, axis=0)

    assert ops(prepare(module(body, dtype="int64", words=("n",)))) == {"take": 1, "dequantize": 1}


def test_rows_with_scales_of_their_own_stay() -> None:
    stays(looked_up(scales=np.linspace(0.1, 1.0, 9), axis=0))


def test_an_index_out_of_bounds_stays_no_number() -> None:
    stays(looked_up(axis=0, mode="nan"))


def test_a_table_that_is_computed_stays() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        parameters = relax.const(0.5), relax.const(0, "int8")
        return op.take(op.dequantize(x, *parameters), relax.const(WORDS, "int64"), axis=0)

    stays(module(body, dtype="int8", x=TABLE.shape))
