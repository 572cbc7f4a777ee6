"""Symbols that a cast of known extents defines."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from annotated_region.functions.shape_variables import variables_in
from annotated_region.functions.solved_symbols import with_solved_symbols
from annotated_region.passes import PrepareForInference


@I.ir_module
class Chained:
    """The second cast defines a symbol by that of the first one."""

    @R.function
    def main(x: R.Tensor(("rows",), "float32")):
        rows, n, m = T.int64(), T.int64(), T.int64()
        _shape = R.match_cast(R.shape([rows // 4, rows]), R.Shape([n, rows]))
        _more = R.match_cast(R.shape([n + 1]), R.Shape([m]))
        with R.dataflow():
            places = R.astype(R.arange(0, 4 * n, 1, "int64"), "float32")
            more = R.astype(R.arange(0, m, 1, "int64"), "float32")
            lower = R.reshape(x, R.shape([n, 4]))
            flat = R.concat([R.add(R.reshape(lower, R.shape([4 * n])), places), more])
            R.output(flat)
        return flat


@I.ir_module
class Checked:
    """A cast to symbols of the inputs is a check, which defines none."""

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        n, m = T.int64(), T.int64()
        _shape = R.match_cast(R.shape([n]), R.Shape([m]))
        return R.add(x, y)


def prepared(function: relax.Function) -> relax.Function:
    return PrepareForInference()(tvm.IRModule({"main": function}))["main"]


def symbols_of_arguments(function: relax.Function) -> set[str]:
    """The symbols in arguments that are numbers."""
    calls = [binding.value for block in function.body.blocks for binding in block.bindings]
    numbers = [
        argument
        for call in calls
        if isinstance(call, relax.Call)
        for argument in call.args
        if isinstance(argument.ty, tvm.ir.PrimType)
    ]
    return {each.name for each in variables_in(*numbers)}


@pytest.mark.parametrize("rewritten", [with_solved_symbols, prepared])
def test_symbols_are_written_out_in_arguments_too(rewritten):
    assert symbols_of_arguments(Chained["main"]) == {"n", "m"}
    assert symbols_of_arguments(rewritten(Chained["main"])) == {"rows"}


def test_checks_of_symbols_are_kept():
    assert with_solved_symbols(Checked["main"]).same_as(Checked["main"])
