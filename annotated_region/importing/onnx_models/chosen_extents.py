"""The extents of what an `If` chooses between tensors of different shapes.

TVM knows no shape of such a result: it compiles nothing that reads it, and checks no `Reshape` of it. Extents
that both branches have stay, and the others become shape variables, which a `MatchCast` defines::

    z = If(c) {x: (n, 4)} {y: (2 * n, 4)}        =>        z = match_cast(If(c) ..., Tensor((if_0, 4)))
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx

from annotated_region.functions.shape_variables import variables_in
from annotated_region.tvm_adapter.arithmetic import provably_equal
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["chosen_type"]


def chosen_type(choice: relax.If, place: int, known: frozenset[tirx.Var]) -> relax.TensorType | None:
    """The type of a result of an `If`, with a variable for each extent that is not one of both branches.

    Parameters
    ----------
    choice
        The `If`.
    place
        The position of the result.
    known
        The shape variables that are defined before the `If`.

    Returns
    -------
    None if the result is no tensor of known rank, or if its shape is known.
    """
    ty, *sides = (_field(each.ty, place) for each in (choice, choice.true_branch, choice.false_branch))
    if not isinstance(ty, relax.TensorType) or ty.ndim < 1 or ty.shape is not None:
        return None
    tensors = [side for side in sides if isinstance(side, relax.TensorType)]
    shapes = [side.shape.values for side in tensors if isinstance(side.shape, relax.ShapeExpr)]
    pairs = zip(*shapes, strict=True) if len(shapes) == len(sides) else [()] * ty.ndim
    return relax.TensorType([_common(axis, pair, known) for axis, pair in enumerate(pairs)], ty.dtype)


def _field(ty: tvm.ir.Type, place: int) -> tvm.ir.Type:
    return ty.fields[place] if isinstance(ty, relax.TupleType) else ty


def _common(axis: int, pair: Sequence[PrimExpr], known: frozenset[tirx.Var]) -> PrimExpr:
    """The extent of both branches, if it is computed from what is known before them; else a variable."""
    if pair and provably_equal(*pair) and known.issuperset(variables_in(pair[0])):
        return pair[0]
    return tirx.Var(f"if_{axis}", "int64")
