"""What a dataflow pattern is made of: its ops, its root's op and its depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm.relax import dpl

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.tvm_adapter.nodes import TypePattern

__all__ = ["depth_of_pattern", "may_hold", "ops_of_pattern", "root_op"]


def ops_of_pattern(pattern: dpl.DFPattern) -> dict[str, None] | None:
    """The names of the ops in a pattern; None if it contains an unknown kind of pattern."""
    found: dict[str, None] = {}
    for part, is_known in _parts_of_all(pattern):
        if not is_known:
            return None
        if isinstance(part, dpl.ExprPattern) and isinstance(part.expr, tvm.ir.Op):
            found[str(part.expr.name)] = None
    return found


def may_hold(pattern: dpl.DFPattern, op: str) -> bool:
    """Whether a match of a pattern may hold a call of an op; where that is not known it may."""
    return any(
        not is_known or (isinstance(part, dpl.CallPattern) and _may_call(part.op, op))
        for part, is_known in _parts_of_all(pattern)
    )


def _parts_of_all(pattern: dpl.DFPattern) -> Iterator[tuple[dpl.DFPattern, bool]]:
    """Each pattern inside a pattern once, itself included, and whether its kind is known."""
    work, seen = [pattern], ExprSet([pattern])
    while work:
        part = work.pop()
        parts = _parts(part)
        yield part, parts is not None
        for each in parts or ():
            if each not in seen:
                seen.add(each)
                work.append(each)


def _may_call(callee: dpl.DFPattern, op: str) -> bool:
    if isinstance(callee, dpl.OrPattern):
        return _may_call(callee.left, op) or _may_call(callee.right, op)
    if isinstance(callee, dpl.ExprPattern) and isinstance(callee.expr, tvm.ir.Op):
        return str(callee.expr.name) == op
    return True


def depth_of_pattern(pattern: dpl.DFPattern, known: ExprMap[int | None] | None = None) -> int | None:
    """The longest chain of values in a pattern; None if unknown."""
    known = ExprMap() if known is None else known
    if pattern not in known:
        parts = _parts(pattern)
        depths = None if parts is None else [depth_of_pattern(part, known) for part in parts]
        unknown = depths is None or None in depths
        known[pattern] = None if unknown else 1 + max(filter(None, depths or ()), default=0)
    return known[pattern]


def _parts(pattern: dpl.DFPattern) -> Sequence[dpl.DFPattern] | None:
    """The sub-patterns of a pattern; None for an unknown kind."""
    parts = _PARTS.get(type(pattern))
    return None if parts is None else parts(pattern)


_KINDS: dict[tuple[type, ...], Callable[[Any], Sequence[dpl.DFPattern]]] = {
    (dpl.CallPattern,): lambda pattern: [pattern.op, *pattern.args],
    (dpl.TuplePattern, dpl.UnorderedTuplePattern): lambda pattern: list(pattern.fields),
    (dpl.TupleGetItemPattern,): lambda pattern: [pattern.tuple],
    (dpl.OrPattern, dpl.AndPattern): lambda pattern: [pattern.left, pattern.right],
    (dpl.NotPattern,): lambda pattern: [pattern.reject],
    (TypePattern, dpl.DataTypePattern, dpl.ShapePattern, dpl.AttrPattern): lambda pattern: [pattern.pattern],
    (dpl.ExprPattern, dpl.VarPattern, dpl.ConstantPattern, dpl.WildcardPattern): lambda _pattern: [],
    (dpl.GlobalVarPattern, dpl.ExternFuncPattern, dpl.PrimArrPattern): lambda _pattern: [],
}
_PARTS = {kind: parts for kinds, parts in _KINDS.items() for kind in kinds}


def root_op(pattern: dpl.DFPattern) -> str | None:
    """The op at the root of every match; None if it is not fixed."""
    if isinstance(pattern, dpl.CallPattern) and isinstance(pattern.op, dpl.ExprPattern):
        expr = pattern.op.expr
        return str(expr.name) if isinstance(expr, tvm.ir.Op) else None
    return None
