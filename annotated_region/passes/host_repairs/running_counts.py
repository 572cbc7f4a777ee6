"""Counts truth values in 64 bits: a running sum of them, which TVM cannot compile.

::

    lv2 = cumsum(begins)                  of bool  =>  lv2 = cumsum(begins, dtype="int64")    of int64
    lv3 = index_tensor(lv2, indices)      of bool      lv3 = index_tensor(lv2, indices)       of int64
    lv4 = equal(lv3, lv3)                              lv4 = equal(lv3, lv3)

TVM 0.27.0's importer of PyTorch leaves the type of ``cumsum(x: bool)`` to Relax, which takes that of the
operand; PyTorch, like numpy, counts in int64. Its code generator then has no addition of truth values
(``CreateAdd ... kDLFloat`` in LLVM). No compiled program could hold the sum in its own type, so nothing is
lost where it gets that of PyTorch: what moves or compares the counts gets its type anew.

1.  A running sum (or product) of truth values in their own type becomes one in int64.
2.  What reads it has to move it, or compare it with another count; whatever else, and a result of the
    function, would change its own meaning: `BuildError`.

The repair can go when Relax infers int64 for such a sum.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.errors import BuildError
from annotated_region.functions.retyping import Emit, retyped
from annotated_region.op_info.attributes import attributes_of
from annotated_region.origins import described
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.tvm_adapter.types import expect

__all__ = ["count_in_whole_numbers"]

_RUNNING = {"relax.cumsum": relax.op.cumsum, "relax.cumprod": relax.op.cumprod}
_MOVES = frozenset(
    [f"relax.{name}" for name in ("reshape", "flatten", "expand_dims", "squeeze", "permute_dims")]
    + [f"relax.{name}" for name in ("index_tensor", "gather_elements", "take", "strided_slice")]
    + ["relax.broadcast_to", "relax.astype"]
)
_COMPARES = frozenset(
    f"relax.{name}" for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)


def count_in_whole_numbers(name: str, function: relax.Function) -> relax.Function:
    """The function with cases 1 and 2 rewritten; itself if it has none.

    Raises
    ------
    BuildError
        A count reaches what takes truth values alone.
    """

    def rewritten(call: relax.Call, binding: relax.VarBinding, _emit: Emit) -> relax.Expr | None:
        op = call.op.name if isinstance(call.op, tvm.ir.Op) else "a call"
        if _reads_count(call, binding.value):
            _require_readable(name, op, call, binding.var)
        is_counted = op in _RUNNING and dtype_of(call.args[0].ty) == dtype_of(binding.var.ty) == "bool"
        if not is_counted:
            return None
        attrs = attributes_of(call.attrs)
        return _RUNNING[op](call.args[0], attrs["axis"], "int64", attrs["exclusive"])

    result = retyped(function, rewritten)
    if not tvm_ffi.structural_equal(result.ret_ty, function.ret_ty):
        raise BuildError(_message(name, "the function", "its result"))
    return result


def _reads_count(call: relax.Call, before: relax.Expr) -> bool:
    """Whether an operand was a truth value and is a count now."""
    old = expect(relax.Call, before).args
    return any(_types(new) != _types(was) for new, was in zip(call.args, old, strict=True))


def _types(expr: relax.Expr) -> list[str | None]:
    fields = expr.fields if isinstance(expr, relax.Tuple) else [expr]
    return [dtype_of(field.ty) for field in fields]


def _require_readable(function: str, op: str, call: relax.Call, variable: relax.Var) -> None:
    is_compared = op in _COMPARES and all(dtype_of(arg.ty) != "bool" for arg in call.args)
    if op not in _MOVES and not is_compared:
        raise BuildError(_message(function, op, described(variable)))


def _message(function: str, op: str, variable: str) -> str:
    return (
        f"function {function!r}: {op} ({variable}) reads a running sum of truth values as truth values, and "
        "TVM can compile no such sum; give it a type of whole numbers, as in cumsum(x, dtype='int64')"
    )
