"""Computes cumulative sums of booleans in int64, because TVM cannot compile them.

::

    lv2 = cumsum(begins)                  of bool  =>  lv2 = cumsum(begins, dtype="int64")    of int64
    lv3 = index_tensor(lv2, indices)      of bool      lv3 = index_tensor(lv2, indices)       of int64
    lv4 = equal(lv3, lv3)                              lv4 = equal(lv3, lv3)

TVM 0.27.0's PyTorch importer leaves the type of ``cumsum(x: bool)`` to Relax, which infers the type of the
operand; PyTorch, like numpy, counts in int64. The code generator then has no addition of booleans
(``CreateAdd ... kDLFloat`` in LLVM). No program with a sum in bool could be compiled, so nothing changes its
meaning if the sum is int64, as in PyTorch: ops that move or compare the counts get new types.

1.  A cumulative sum or product of booleans in their own type becomes one in int64.
2.  Its users must move it, or compare it with another count; any other use, including a result of the
    function, would change its meaning: `BuildError`.

The repair can be removed when Relax infers int64 for such a sum.
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
    """The function with cases 1 and 2 rewritten; the function itself if there are none.

    Raises
    ------
    BuildError
        A count is used where a boolean is required.
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
    """Whether an operand was a boolean and is now a count."""
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
        f"function {function!r}: {op} ({variable}) reads a cumulative sum of booleans as booleans, and "
        "TVM cannot compile such a sum; give it an integer type, as in cumsum(x, dtype='int64')"
    )
