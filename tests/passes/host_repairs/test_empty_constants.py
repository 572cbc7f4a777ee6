"""Libraries load that were built of modules with constants without elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.passes.host_repairs.repairing import repaired


def nothing(*shape: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.zeros(shape, dtype), dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (2, 3, 0), (0,)], ids=str)
def test_a_library_with_nothing_in_it_loads(shape: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    x = var("x", (2, 3), "float32")
    made = module([x], lambda _: (op.negative(x), nothing(*shape, dtype=dtype), nothing(*shape, dtype=dtype)))
    ar.build(made).export_library(str(tmp_path / "library.so"))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "library.so")), tvm.cpu())
    first, *others = machine["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))
    np.testing.assert_array_equal(first.numpy(), np.full((2, 3), -1.0))
    assert [(each.numpy().shape, str(each.numpy().dtype)) for each in others] == [(shape, dtype)] * 2


def test_branches_share_what_is_made_before_them(tmp_path: Path) -> None:
    def branch(value: relax.Expr) -> relax.Expr:
        result = relax.Var("result", relax.TensorType((2, 3), "float32"))
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, value)])], result)

    x, which = var("x", (2, 3), "float32"), var("which", (), "bool")
    given = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    same, negative = (op.concat([each, nothing(2, 0)], 1) for each in (x, op.negative(x)))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, which]):
        builder.emit_func_output(builder.emit(relax.If(which, branch(same), branch(negative))))
    made = builder.finalize()
    assert repaired(made).script().count("R.zeros") == 1
    ar.build(made).export_library(str(tmp_path / "library.so"))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "library.so")), tvm.cpu())
    for truth, expected in ((True, 1.0), (False, -1.0)):
        found = machine["main"](given, tvm.runtime.tensor(np.array(truth)))
        np.testing.assert_array_equal(found.numpy(), np.full((2, 3), expected))


def test_constants_with_elements_stay() -> None:
    x = var("x", (2, 3), "float32")
    made = module([x], lambda _: op.add(x, relax.const(np.ones((2, 3), "float32"))))
    assert repaired(made)["main"].same_as(made["main"])
