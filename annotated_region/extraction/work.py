"""The number of operations of a lowered function, from its loops, and the parameters that it writes.

An operation is arithmetic on tensor elements: an addition, a product, a comparison, a bitwise op. A
multiply-add is two. A transcendental function counts 10, as in reports. Index arithmetic, conditions
on indices (the border of a padded window), conversions, and initial values of reductions are free. For a
conditional, the branch with more operations counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax, tirx

from annotated_region.tvm_adapter.nodes import (
    BITWISE,
    BitwiseNot,
    PrimExpr,
    SBlock,
    SBlockRealize,
    TensorLoad,
)

__all__ = ["flops_of", "written_parameters"]

_TRANSCENDENTAL = 10
_FUNCTIONS = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "sigmoid", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
_SIMPLE = (
    *("fabs", "floor", "ceil", "round", "trunc", "nearbyint", "fmod", "copysign", "nextafter", "ldexp"),
    *("isnan", "isinf", "isfinite", "popcount", "clz"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
)
_WEIGHTS = {
    **dict.fromkeys(_FUNCTIONS, _TRANSCENDENTAL),
    **dict.fromkeys(_SIMPLE, 1),
    "reinterpret": 0,
}
_BINARY = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max),
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or),
    *BITWISE,
)
# Statements without operations of their own.
_PLAIN = (tirx.SeqStmt, SBlockRealize, SBlock, tirx.AttrStmt, tirx.AllocBuffer, tirx.DeclBuffer)


class _UncountedError(Exception):
    """The number of operations is not static."""


def flops_of(func: tirx.PrimFunc) -> int | None:
    """The operations of one call.

    Returns
    -------
    int or None
        None if the number is not known before the function runs: an extent is symbolic or depends on data,
        a loop has no bound, or code is called that is not TensorIR.

    Notes
    -----
    Linear in the size of the code: the count of a loop's body is multiplied by its extent.
    """
    try:
        return _Counter().statement(func.body)
    except _UncountedError:
        return None


class _Counter:
    """Counts operations; tracks the variables that hold tensor elements."""

    def __init__(self) -> None:
        self.data: set[tirx.Var] = set()

    def statement(self, statement: tirx.Stmt) -> int:
        """The operations of a statement."""
        if isinstance(statement, tirx.For):
            return _number(statement.extent) * self.statement(statement.body)
        if isinstance(statement, tirx.IfThenElse):
            return self._branches(statement)
        if isinstance(statement, tirx.BufferStore):
            return self.value(statement.value)[0]
        if isinstance(statement, tirx.Bind):
            return self._bound(statement)
        if not (isinstance(statement, _PLAIN) or _does_nothing(statement)):
            raise _UncountedError
        return sum(map(self.statement, _parts(statement)))

    def _branches(self, statement: tirx.IfThenElse) -> int:
        otherwise = statement.else_case
        then = self.statement(statement.then_case)
        instead = 0 if otherwise is None else self.statement(otherwise)
        return self.value(statement.condition)[0] + max(then, instead)

    def _bound(self, statement: tirx.Bind) -> int:
        operations, is_data = self.value(statement.value)
        if is_data:
            self.data.add(statement.var)
        return operations

    def value(self, expr: PrimExpr) -> tuple[int, bool]:
        """The operations of an expression, and whether it depends on tensor elements."""
        if isinstance(expr, TensorLoad | tirx.Var):
            return 0, isinstance(expr, TensorLoad) or expr in self.data
        if isinstance(expr, tirx.Select):
            return self._choice(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, relax.Call):
            return self._call(expr)
        return self._operator(0 if isinstance(expr, tirx.Cast) else 1, *_operands(expr))

    def _operator(self, weight: int, *operands: PrimExpr) -> tuple[int, bool]:
        counted = [self.value(operand) for operand in operands]
        is_data = any(data for _, data in counted)
        return sum(count for count, _ in counted) + weight * is_data, is_data

    def _choice(self, condition: PrimExpr, *values: PrimExpr) -> tuple[int, bool]:
        asked, by_data = self.value(condition)
        counted = [self.value(value) for value in values]
        return asked + max(count for count, _ in counted), by_data or any(data for _, data in counted)

    def _call(self, call: relax.Call) -> tuple[int, bool]:
        # Some ops are of the dialect tirx, some of prim.
        name = str(call.op.name).rpartition(".")[2] if isinstance(call.op, tvm.ir.Op) else ""
        if name == "if_then_else":
            return self._choice(*call.args)
        if name in _WEIGHTS:
            return self._operator(_WEIGHTS[name], *call.args)
        if call.args:
            raise _UncountedError
        return 0, False  # such as the largest number of a type


def _does_nothing(statement: tirx.Stmt) -> bool:
    return isinstance(statement, tirx.Evaluate) and isinstance(statement.value, tirx.IntImm)


def _operands(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    if isinstance(expr, _BINARY):
        return expr.a, expr.b
    if isinstance(expr, tirx.Cast):
        return (expr.value,)
    return (expr.a,) if isinstance(expr, tirx.Not | BitwiseNot) else ()


def _number(extent: PrimExpr) -> int:
    if not isinstance(extent, tirx.IntImm):
        raise _UncountedError
    return int(extent.value)


def written_parameters(func: tirx.PrimFunc) -> list[tirx.Var]:
    """The buffer parameters that are written, according to stores and the write lists of blocks."""
    written = {buffer: None for statement in _statements(func.body) for buffer in _writes(statement)}
    return [param for param in func.params if param in written]


def _writes(statement: tirx.Stmt) -> list[tirx.Var]:
    if isinstance(statement, tirx.BufferStore):
        return [statement.buffer]
    if isinstance(statement, SBlock):
        return [region.source for region in statement.writes if isinstance(region.source, tirx.Var)]
    return []


def _statements(body: tirx.Stmt) -> Iterator[tirx.Stmt]:
    """A statement and all nested statements."""
    pending = [body]
    while pending:
        statement = pending.pop()
        yield statement
        pending.extend(_parts(statement))


def _parts(statement: tirx.Stmt) -> list[tirx.Stmt]:
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, SBlockRealize):
        return [statement.block]
    if isinstance(statement, tirx.IfThenElse):
        return [part for part in (statement.then_case, statement.else_case) if part is not None]
    if isinstance(statement, tirx.For | tirx.While | tirx.AttrStmt | SBlock):
        return [statement.body]
    return []
