"""Types of expressions: setting one without inferring it, and the variables in it."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

__all__ = ["set_type", "shape_vars_of"]


def set_type(expr: relax.Expr, ty: tvm.ir.Type) -> None:
    """Give an expression its type in place.

    TVM infers types while a `BlockBuilder` normalizes; where the type is known already, inferring it again
    costs milliseconds a call. TVM does not check that the type is right.

    Parameters
    ----------
    expr
        An expression or a global variable that is used nowhere else yet.
    ty
        Its type.
    """
    _update_type(expr, ty)


def shape_vars_of(ty: tvm.ir.Type) -> list[relax.Var]:
    """The variables in the shapes of a type, in the order of their first use."""
    return list(relax.analysis.tir_vars_in_type(ty))
