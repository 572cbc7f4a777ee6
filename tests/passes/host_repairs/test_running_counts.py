"""Running sums of truth values: counted as numpy counts, or refused with the name of the op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.errors import BuildError
from annotated_region.host_targets import UNOPTIMIZED

op = relax.op
Body = Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]


def of(body: Body) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2, 5], "bool"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(body(builder, x))
        builder.emit_func_output(output)
    return builder.get()


def same_sequence(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """Which tokens belong to one sequence, if `x` says where each begins."""
    counts = builder.emit(op.cumsum(x, 1))
    rows = builder.emit(op.expand_dims(counts, [1]))
    columns = builder.emit(op.expand_dims(counts, [2]))
    return op.equal(rows, columns)


BEGINS = np.array([[1, 0, 1, 0, 1], [0, 0, 1, 1, 0]], bool)


@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "as it is"])
def test_tokens_of_one_sequence_are_those_with_one_count(prepared: bool) -> None:
    mod = of(same_sequence)
    partitioned = ar.partition(mod, ["dnnl"]) if prepared else mod
    text = partitioned.script()
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(BEGINS)).numpy()
    counts = np.cumsum(BEGINS, 1)
    np.testing.assert_array_equal(found, counts[:, None, :] == counts[:, :, None])
    assert partitioned.script() == text


REFUSED: dict[str, tuple[Body, str]] = {
    "the result": (lambda _b, x: op.cumsum(x, 1), "the function"),
    "a connective": (lambda b, x: op.logical_and(b.emit(op.cumsum(x, 1)), x), "relax.logical_and"),
    "a comparison with truth values": (lambda b, x: op.equal(b.emit(op.cumsum(x, 1)), x), "relax.equal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_truth_values_alone_is_named(name: str) -> None:
    body, op_name = REFUSED[name]
    with pytest.raises(BuildError, match=f"function 'main': {op_name}.*cumulative sum of booleans"):
        ar.build(of(body))


def test_tvm_cannot_compile_it_yet() -> None:
    """Where it can, or Relax infers whole numbers, the repair can go."""
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        tvm.compile(of(same_sequence), UNOPTIMIZED)


def test_an_op_that_tvm_cannot_compile_is_named() -> None:
    def body(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return op.logical_not(builder.emit(op.negative(x), name_hint="odd"))

    with pytest.raises(BuildError, match=r"relax.negative \('odd'\)"):
        ar.build(of(body))
