"""Casts of numbers to zeros where a function begins: the first says what a call breaks, and all stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import annotated_region as ar


def test_two_casts_whose_results_are_read_are_checked_and_read() -> None:
    n, m = (tirx.Var(name, "int64") for name in "nm")
    x = relax.Var("x", relax.TensorType((n, m), "float32"))
    builder, zero = relax.BlockBuilder(), tirx.IntImm("int64", 0)
    with builder.function("main", [x]):
        read = []
        for numbers in ([n - m], [m - n, 2 * n - 2 * m]):
            shape = builder.emit(relax.ShapeExpr(numbers))
            cast = builder.match_cast(shape, relax.ShapeType([zero] * len(numbers)))
            read.append(builder.emit(relax.op.shape_to_tensor(cast)))
        builder.emit_func_output(relax.Tuple(read))
    run = relax.VirtualMachine(ar.build(builder.finalize()).jit(), tvm.cpu())["main"]
    found = run(tvm.runtime.tensor(np.ones((3, 3), "float32")))
    assert [each.numpy().tolist() for each in found] == [[0], [0, 0]]
    with pytest.raises(ValueError, match="n must be m, where n is extent 0 of x and m is extent 1 of x"):
        run(tvm.runtime.tensor(np.ones((3, 4), "float32")))
