"""Tables of rewrites, and rewrites of commutative operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TypeAlias

from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.targets.op_view import OpView

__all__ = ["RewriteTable", "either_way", "table_of"]

RewriteTable: TypeAlias = Mapping[str, Sequence[Rewrite]]
"""By op name, the rewrites that apply to its calls, in the order in which they are tried."""


def table_of(rewrites: Iterable[tuple[Iterable[str], Rewrite]]) -> RewriteTable:
    """A table from pairs of op names and a rewrite for these ops."""
    table: dict[str, list[Rewrite]] = {}
    for names, rewrite in rewrites:
        for name in names:
            table.setdefault(name, []).append(rewrite)
    return table


def either_way(
    rewrite: Callable[[OpView, relax.Expr, relax.Expr, Editor], relax.Expr | None],
) -> Rewrite:
    """A rewrite of a commutative op that tries `rewrite` with both orders of its operands."""

    @wraps(rewrite)
    def apply(view: OpView, editor: Editor) -> relax.Expr | None:
        left, right = view.args
        found = rewrite(view, left, right, editor)
        return rewrite(view, right, left, editor) if found is None else found

    return apply
