"""Counts calls of TensorIR functions the slow and plain way: TVM's own visitor, pairwise comparison."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprVisitor, visitor
from tvm.s_tir.meta_schedule import ExtractedTask
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

__all__ = ["TARGET", "assert_same_tasks", "count_by_function", "fuse", "tvm_tasks"]

TARGET = {"kind": "llvm", "num-cores": 2}


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """TVM's lowering and fusion, as its own tuning pipeline lists them, without what nobody calls."""
    passes = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    return tvm.transform.Sequential(passes)(mod)


@visitor
class _Calls(PyExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def visit_call_(self, call: relax.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and call.op.name.startswith("relax.call_tir"):
            self.names.append(call.args[0].name_hint)
        super().visit_call_(call)


def count_by_function(fused: tvm.IRModule) -> list[tuple[tvm.tirx.PrimFunc, int]]:
    """Each distinct function, without its name, and the number of its calls."""
    calls = _Calls()
    for _name, function in fused.functions_items():
        if isinstance(function, relax.Function):
            calls.visit_expr(function)
    distinct: list[tuple[tvm.tirx.PrimFunc, int]] = []
    for name in calls.names:
        function = fused[name]
        if "global_symbol" in (function.attrs or {}):
            function = function.without_attr("global_symbol")
        for index, (known, count) in enumerate(distinct):
            if tvm_ffi.structural_equal(known, function):
                distinct[index] = (known, count + 1)
                break
        else:
            distinct.append((function, 1))
    return distinct


def tvm_tasks(fused: tvm.IRModule) -> list[ExtractedTask]:
    """What TVM itself extracts from a module."""
    return list(extract_tasks(fused, tvm.target.Target(TARGET)))


def assert_same_tasks(ours: list[ExtractedTask], theirs: list[ExtractedTask]) -> None:
    """The same modules, whatever they are called, with the same weights."""
    assert len(ours) == len(theirs)
    for task in theirs:
        (match,) = [each for each in ours if tvm_ffi.structural_equal(each.mod, task.mod)]
        assert match.weight == task.weight
        assert tvm_ffi.structural_equal(match.dispatched[0], task.dispatched[0])
        assert str(match.target) == str(task.target)
