"""Tables of rewrites, and rewrites of operations whose two operands may change places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TypeAlias

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView

__all__ = ["RewriteTable", "either_way", "table_of"]

RewriteTable: TypeAlias = Mapping[str, Sequence[Rewrite]]
"""By name of a Relax op, what may rewrite a call to it, in the order in which it is tried."""


def table_of(rewrites: Iterable[tuple[Iterable[str], Rewrite]]) -> RewriteTable:
    """The table of some rewrites, each with the names of the ops that it may rewrite."""
    table: dict[str, list[Rewrite]] = {}
    for names, rewrite in rewrites:
        for name in names:
            table.setdefault(name, []).append(rewrite)
    return table


def either_way(
    rewrite: Callable[[OpView, relax.Expr, relax.Expr, Editor], relax.Expr | None],
) -> Rewrite:
    """A rewrite of a commutative op of one that takes its operands in a certain order: tried both ways."""

    @wraps(rewrite)
    def apply(view: OpView, editor: Editor) -> relax.Expr | None:
        left, right = view.args
        found = rewrite(view, left, right, editor)
        return rewrite(view, right, left, editor) if found is None else found

    return apply
