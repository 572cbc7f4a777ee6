"""Translates external functions op by op: the walk over bindings and composites that all backends share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from tvm import relax

from annotated_region.origins import recorded_origin
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["Declined", "Translation", "flat", "require"]


class Declined(Exception):  # noqa: N818 - an answer of a backend, not an error
    """A backend has no translation of an op or expression; the message is the reason.

    Attributes
    ----------
    origin
        The origin of the op, if known.
    """

    origin: str | None = None

    def __str__(self) -> str:
        reason = super().__str__()
        return reason if self.origin is None else f"{reason} (at {self.origin})"


def require(condition: bool, reason: str) -> None:
    """Raise `Declined` with `reason` unless the condition holds."""
    if not condition:
        raise Declined(reason)


Made = TypeVar("Made")


class Translation(ABC, Generic[Made]):
    """Walks the bindings of a function in order; calls of composites are walked in place.

    The subclass decides what represents a tensor: its methods give the values of ops, constants and shapes. A
    tuple becomes a tuple of values; a composite represents itself until it is called.
    """

    def __init__(self) -> None:
        """Start outside any function."""
        self.scope: dict[relax.Var, object] = {}

    @abstractmethod
    def converted(self, op: OpView) -> object:
        """The value of an op."""

    @abstractmethod
    def constant(self, constant: Constant) -> object:
        """The value of a constant."""

    @abstractmethod
    def passed_shape(self, extents: Iterable[relax.Expr]) -> object:
        """The value of a shape that is passed to a composite."""

    @abstractmethod
    def made(self, value: object) -> Made:
        """The value as a single tensor; raises `Declined` if it is not one, or is not computed."""

    def converted_whole(self, _composite: relax.Function, _arguments: Sequence[relax.Expr]) -> object | None:
        """The value of a composite that is translated as a whole; None to walk it op by op."""
        return None

    def entered(self, composite: relax.Function, _arguments: Sequence[object]) -> relax.Function:
        """The composite to walk for a call with these arguments; by default the composite itself."""
        return composite

    def variable(self, var: relax.Var) -> object:
        """The value of a variable."""
        return self.scope[var]

    def operand(self, expr: relax.Expr) -> Made:
        """The tensor of an argument."""
        return self.made(self.value(expr))

    def operands(self, expr: relax.Expr) -> tuple[Made, ...]:
        """The tensors of a tuple argument."""
        return tuple(map(self.made, flat(self.value(expr))))

    def body(self, function: relax.Function, arguments: Iterable[object]) -> object:
        """The value of a function's result."""
        outer, self.scope = self.scope, dict(zip(function.params, arguments, strict=True))
        for block in function.body.blocks:
            for binding in block.bindings:
                self.scope[binding.var] = self._value_of(binding)
        result = self.value(function.body.body)
        self.scope = outer
        return result

    def value(self, expr: relax.Expr) -> object:
        """The value of an argument."""
        if isinstance(expr, relax.Var):
            return self.variable(expr)
        if isinstance(expr, Constant):
            return self.constant(expr)
        if isinstance(expr, relax.Tuple):
            return tuple(map(self.value, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            value = self.value(expr.tuple_value)
            return value[expr.index] if isinstance(value, tuple) else value
        raise Declined(f"the expression {expr} is not a tensor")

    def _value_of(self, binding: relax.Binding) -> object:
        try:
            return self._bound(binding.value)
        except Declined as reason:
            # The innermost binding has the most specific origin; composites are walked in place of their
            # calls.
            known = recorded_origin(binding.value) or recorded_origin(binding.var)
            reason.origin = reason.origin or known
            raise

    def _bound(self, value: relax.Expr) -> object:
        if isinstance(value, relax.Function):
            return value
        return self._called(value) if isinstance(value, relax.Call) else self.value(value)

    def _called(self, call: relax.Call) -> object:
        view = OpView.of(call)
        if view is not None:
            return self.converted(view)
        callee = self.scope.get(call.op, call.op) if isinstance(call.op, relax.Var) else call.op
        if not isinstance(callee, relax.Function):
            raise Declined(f"the call {call} calls neither an op nor a composite")
        whole = self.converted_whole(callee, list(call.args))
        if whole is not None:
            return whole
        arguments = [self._argument(argument) for argument in call.args]
        return self.body(self.entered(callee, arguments), arguments)

    def _argument(self, expr: relax.Expr) -> object:
        return self.passed_shape(expr.values) if isinstance(expr, relax.ShapeExpr) else self.value(expr)


def flat(value: object) -> tuple[object, ...]:
    """The values of a tuple, or a single value as a tuple."""
    return value if isinstance(value, tuple) else (value,)
