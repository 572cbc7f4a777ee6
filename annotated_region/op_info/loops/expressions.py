"""Converts TIR expressions into trees of the normal form."""

from __future__ import annotations

import math
from collections.abc import Mapping

import tvm
from tvm import relax, tirx

from annotated_region.op_info.loops.trees import Extent, Tree, commuted, is_size, linear
from annotated_region.tvm_adapter.nodes import BITWISE, BitwiseNot, PrimExpr, TensorLoad
from annotated_region.tvm_adapter.types import expect

__all__ = ["Converter", "NotNormalError"]


class NotNormalError(Exception):
    """The code has no normal form; the message gives the reason."""


Comparison = tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ | tirx.NE
_BINARY = (
    tirx.Add,
    tirx.Sub,
    tirx.Mul,
    tirx.Div,
    tirx.Mod,
    tirx.FloorDiv,
    tirx.FloorMod,
    tirx.Max,
    tirx.Min,
    *BITWISE,
)


class Converter:
    """Converts the expressions of one block.

    Parameters
    ----------
    buffers
        The number of each buffer.
    iters
        The number of each iteration variable.
    sizes
        The name of each variable in shapes.
    """

    def __init__(
        self,
        buffers: Mapping[tirx.Var, int],
        iters: Mapping[tirx.Var, int],
        sizes: Mapping[tirx.Var, Tree],
    ) -> None:
        self.buffers = buffers
        self.names: dict[tirx.Var, Tree] = {var: ("iter", number) for var, number in iters.items()} | dict(
            sizes
        )
        self.bound = 0

    def bind(self, var: tirx.Var) -> None:
        """Assign the next name to a variable that a statement binds."""
        self.names[var] = ("bound", self.bound)
        self.bound += 1

    def index(self, expr: PrimExpr) -> Tree:
        """An integer that is used as an index, or in a comparison."""
        constant, terms = self._terms(expr)
        return linear(constant, terms)

    def extent(self, expr: PrimExpr) -> Extent:
        """An extent, as a number if it is one."""
        _, constant, terms = form = self.index(expr)
        if not is_size(form):
            raise NotNormalError("an extent is not computed from sizes")
        return form if terms else int(constant)

    def data(self, expr: PrimExpr) -> Tree:
        """A value in the computation."""
        dtype = str(expr.ty)
        if isinstance(expr, tirx.FloatImm):
            return ("float", dtype, _float(expr.value))
        if isinstance(expr, tirx.IntImm):
            return ("int", dtype, int(expr.value))
        if isinstance(expr, tirx.Var) and self._name(expr)[0] == "bound":
            return self._name(expr)
        if isinstance(expr, TensorLoad):
            return self._load(expr)
        if _is_integer(expr) and not _loads(expr):
            return ("index", dtype, self.index(expr))
        return self._operator(expr, dtype)

    def _operator(self, expr: PrimExpr, dtype: str) -> Tree:
        if isinstance(expr, tirx.Select):
            return (
                "if",
                self.condition(expr.condition),
                self.data(expr.true_value),
                self.data(expr.false_value),
            )
        if isinstance(expr, Comparison | tirx.And | tirx.Or | tirx.Not):
            return self.condition(expr)
        if isinstance(expr, tirx.Cast):
            return ("Cast", dtype, self.data(expr.value))
        if isinstance(expr, BitwiseNot):
            return ("BitwiseNot", dtype, self.data(expr.a))
        if isinstance(expr, _BINARY):
            return commuted((type(expr).__name__, dtype, self.data(expr.a), self.data(expr.b)))
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op) and not _has_attrs(expr):
            return self._call(expr, dtype)
        raise NotNormalError(f"an expression of type {type(expr).__name__}")

    def _call(self, expr: relax.Call, dtype: str) -> Tree:
        name = str(expect(tvm.ir.Op, expr.op).name)
        if name.endswith(".if_then_else"):
            condition, then, otherwise = expr.args
            return ("if", self.condition(condition), self.data(then), self.data(otherwise))
        if any(
            not isinstance(arg, relax.Expr) or not isinstance(arg.ty, tvm.ir.PrimType) for arg in expr.args
        ):
            raise NotNormalError(f"a call of {name} with operands that are not numbers")
        return (name, dtype, *map(self.data, expr.args))

    def condition(self, expr: PrimExpr) -> Tree:
        """A boolean."""
        if isinstance(expr, tirx.And | tirx.Or):
            name = type(expr).__name__.lower()
            parts: list[Tree] = []
            for side in (self.condition(expr.a), self.condition(expr.b)):
                parts.extend(side[1] if side[0] == name else (side,))
            return commuted((name, tuple(parts)))
        if isinstance(expr, tirx.Not):
            return ("not", self.condition(expr.a))
        if isinstance(expr, Comparison):
            return self._comparison(expr)
        return self.data(expr)

    def _comparison(self, expr: Comparison) -> Tree:
        left, right = expr.a, expr.b
        if isinstance(expr, tirx.GT | tirx.GE):
            left, right = right, left
        name = {"GT": "LT", "GE": "LE"}.get(type(expr).__name__, type(expr).__name__)
        if not _is_integer(left) or _loads(left) or _loads(right):
            return (name, "bool", self.data(left), self.data(right))
        constant, terms = self._terms(right)
        other, subtracted = self._terms(left)
        for atom, factor in subtracted.items():
            terms[atom] = terms.get(atom, 0) - factor
        difference = constant - other
        if name in ("LT", "LE"):
            return ("nonnegative", linear(difference - (name == "LT"), terms))
        return ("zero" if name == "EQ" else "nonzero", linear(difference, terms))

    def _load(self, expr: TensorLoad) -> Tree:
        if expr.source not in self.buffers:
            raise NotNormalError("a buffer is unknown")
        return ("load", self.buffers[expr.source], tuple(self.index(index) for index in expr.indices))

    def _name(self, var: tirx.Var) -> Tree:
        if var not in self.names:
            raise NotNormalError(f"the variable {var.name} does not belong to the block")
        return self.names[var]

    def _terms(self, expr: PrimExpr) -> tuple[int, dict[Tree, int]]:
        """An integer as a constant and a factor for each atom."""
        if isinstance(expr, tirx.IntImm):
            return int(expr.value), {}
        if isinstance(expr, tirx.Add | tirx.Sub):
            sign = 1 if isinstance(expr, tirx.Add) else -1
            constant, terms = self._terms(expr.a)
            other, added = self._terms(expr.b)
            for atom, factor in added.items():
                terms[atom] = terms.get(atom, 0) + sign * factor
            return constant + sign * other, terms
        if isinstance(expr, tirx.Mul):
            return self._product(expr)
        return 0, {self._atom(expr): 1}

    def _product(self, expr: tirx.Mul) -> tuple[int, dict[Tree, int]]:
        left, right = self._terms(expr.a), self._terms(expr.b)
        if left[1] and right[1]:
            factors = sorted((linear(*left), linear(*right)), key=repr)
            return 0, {("product", *factors): 1}
        (factor, _), (constant, terms) = (left, right) if not left[1] else (right, left)
        return constant * factor, {atom: value * factor for atom, value in terms.items()}

    def _atom(self, expr: PrimExpr) -> Tree:
        if isinstance(expr, tirx.Var):
            return self._name(expr)
        if isinstance(expr, TensorLoad):
            return self._load(expr)
        if isinstance(expr, tirx.FloorDiv | tirx.FloorMod):
            name = "div" if isinstance(expr, tirx.FloorDiv) else "mod"
            divisor = self.index(expr.b)
            return (name, self.index(expr.a), divisor if divisor[2] else int(divisor[1]))
        if isinstance(expr, tirx.Max | tirx.Min):
            return (type(expr).__name__, "int", self.index(expr.a), self.index(expr.b))
        return ("value", self._operator(expr, str(expr.ty)))


def _float(number: float) -> float | str:
    """The number, or a string for NaN, which is not equal to itself, and for -0.0, which is equal to 0.0."""
    if math.isnan(number):
        return "nan"
    return "-0.0" if number == 0 and math.copysign(1, number) < 0 else number


def _is_integer(expr: PrimExpr) -> bool:
    return str(expr.ty) in ("int32", "int64")


def _has_attrs(call: relax.Call) -> bool:
    return call.attrs is not None and bool(len(call.attrs.keys()) if hasattr(call.attrs, "keys") else True)


def _loads(expr: PrimExpr) -> bool:
    """Whether an expression reads a buffer."""
    if isinstance(expr, TensorLoad):
        return True
    if isinstance(expr, relax.Call):
        return any(_loads(arg) for arg in expr.args)
    names = ("a", "b", "value", "condition", "true_value", "false_value")
    return any(_loads(getattr(expr, name)) for name in names if _has_operand(expr, name))


def _has_operand(expr: PrimExpr, name: str) -> bool:
    return not isinstance(expr, tirx.IntImm | tirx.FloatImm) and hasattr(type(expr), name)
