"""Builds functions inside of a function: branches of an `If`, and the bodies of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import tvm
from tvm import relax, tirx

from annotated_region.tvm_adapter.types import expect

__all__ = ["Emit", "NestedBuilder", "branch_of", "choice"]

_NESTED = "nested"
"""The name of the function while it is built."""

Emit: TypeAlias = Callable[[relax.BlockBuilder], relax.Expr]
"""Emits bindings, and returns their result."""


class NestedBuilder(relax.BlockBuilder):
    """Builds one function inside of that of another builder, and knows the bindings before it.

    Whatever else is added to a module, such as loops of TensorIR, is added to that of the outer builder.

    Parameters
    ----------
    outer
        The builder of the surrounding function.
    """

    def __init__(self, outer: relax.BlockBuilder) -> None:
        super().__init__()
        self._outer = outer

    def lookup_binding(self, var: relax.Var) -> relax.Expr | None:
        found = super().lookup_binding(var)
        return self._outer.lookup_binding(var) if found is None else found

    def add_func(self, func: tvm.ir.BaseFunc, func_name: str) -> tvm.ir.GlobalVar:
        """A function that the nested one calls belongs to the module."""
        is_nested = func_name == _NESTED and isinstance(func, relax.Function)
        return super().add_func(func, func_name) if is_nested else self._outer.add_func(func, func_name)

    def update_func(self, gv: tvm.ir.GlobalVar, updated_func: tvm.ir.BaseFunc) -> None:
        """Replace a function of the module."""
        self._outer.update_func(gv, updated_func)

    def nested(self, params: Sequence[relax.Var]) -> AbstractContextManager[None]:
        """The scope of the nested function."""
        return self.function(_NESTED, list(params), private=True)

    def finished(self, result: relax.Expr) -> relax.Function:
        """The nested function, which returns `result`; called at the end of its scope."""
        self.emit_func_output(self.normalize(result))
        return expect(relax.Function, self.get()[_NESTED])


def branch_of(builder: relax.BlockBuilder, variables: Sequence[tirx.Var], emit: Emit) -> relax.SeqExpr:
    """The bindings of a branch of an `If`, and its result.

    Parameters
    ----------
    builder
        The builder of the function that has the `If`.
    variables
        The shape variables that are defined before it.
    emit
        Called with the builder of the branch.
    """
    inner = NestedBuilder(builder)
    with inner.nested([relax.Var("known", relax.ShapeType(list(variables)))]):
        made = inner.finished(emit(inner))
    return made.body


def choice(
    builder: relax.BlockBuilder, variables: Sequence[tirx.Var], condition: relax.Expr, yes: Emit, no: Emit
) -> relax.Var:
    """Emits an `If`; for the parameters see `branch_of`."""
    then_branch, else_branch = (branch_of(builder, variables, emit) for emit in (yes, no))
    return builder.emit(relax.If(condition, then_branch, else_branch))
