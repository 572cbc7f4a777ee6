"""Finds the matches of a target's patterns in a function: the composites that it can claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relax
from tvm.relax import dpl

from annotated_region.dataflow.graph import DEAD, DataflowGraph, NodeKind
from annotated_region.errors import RuleError
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.ids import NodeId
from annotated_region.notes import DeclineReason, Refusal
from annotated_region.origins import described
from annotated_region.targets.asking import refusal_of
from annotated_region.targets.rules import Pattern
from annotated_region.tvm_adapter.nodes import TypePattern
from annotated_region.tvm_adapter.ops import pattern_check_context

__all__ = ["Match", "Matcher", "may_hold", "ops_of_pattern", "without_outranked"]


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a pattern.

    Attributes
    ----------
    pattern
        The pattern.
    root
        The node that the pattern was matched at.
    nodes
        The nodes of the composite, in program order.
    refusal
        Why this match cannot be claimed; None if it can.
    """

    pattern: Pattern
    root: NodeId
    nodes: tuple[NodeId, ...]
    refusal: Refusal | None = None


class Matcher:
    """Matches patterns in one unannotated function."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.by_value = ExprMap(
            (node.value, number)
            for number, node in graph.numbered()
            if node.kind in (NodeKind.OPERATION, NodeKind.STRUCTURE)
        )

    @cached_property
    def values(self) -> tvm.runtime.Object:
        """The bound value of each variable of the function."""
        return relax.analysis.get_var2val(self.graph.func)

    def matches(self, patterns: Iterable[Pattern]) -> Iterator[Match]:
        """All matches, in program order of their roots, then in the order of `patterns`.

        Raises
        ------
        RuleError
            The check of a pattern raised, or returned an invalid answer.
        """
        by_op: dict[str | None, list[tuple[Pattern, int | None]]] = {}
        for pattern in patterns:
            by_op.setdefault(_root_op(pattern.pattern), []).append((pattern, _depth(pattern.pattern)))
        for number, node in self.graph.numbered():
            op = node.value.op if isinstance(node.value, relax.Call) else None
            if node.kind is not NodeKind.OPERATION or not isinstance(op, tvm.ir.Op):
                continue
            candidates = (*by_op.get(op.name, ()), *by_op.get(None, ()))
            if not candidates:
                continue
            near = self.values_near(number, [depth for _pattern, depth in candidates])
            for pattern, _depth_of_it in candidates:
                found = pattern.pattern.extract_matched_expr(node.value, near)
                if found is not None:
                    yield self.match(pattern, number, found)

    def values_near(self, root: NodeId, depths: Sequence[int | None]) -> tvm.runtime.Object:
        """The bound value of each variable that patterns of these depths can reach from `root`.

        TVM scans the whole map in each call, so passing that of the whole function would make matching
        quadratic. It is only passed if a depth is unknown.
        """
        if None in depths:
            return self.values
        near: dict[NodeId, None] = {}
        level = [root]
        for _step in range(max(filter(None, depths), default=0)):
            level = [node for user in level for node in self.operands(user) if node not in near]
            near.update(dict.fromkeys(level))
        bindings = (self.graph.nodes[node].binding for node in near)
        values: tvm.runtime.Object = tvm.runtime.convert(
            {binding.var: binding.value for binding in bindings if isinstance(binding, relax.VarBinding)}
        )
        return values

    def found(self, pattern: dpl.DFPattern, root: NodeId) -> Mapping[dpl.DFPattern, relax.Expr] | None:
        """The expressions that the parts of a pattern match at a node; None if it does not match there."""
        near = self.values_near(root, [_depth(pattern)])
        found: Mapping[dpl.DFPattern, relax.Expr] | None = pattern.extract_matched_expr(
            self.graph.nodes[root].value, near
        )
        return found

    def operands(self, node: NodeId) -> Iterator[NodeId]:
        """The nodes whose values a node reads, traced through aliases."""
        for edge in self.graph.into[node]:
            if edge.producer >= 0:
                yield edge.producer
                if isinstance(self.graph.nodes[edge.producer].value, relax.Var):
                    yield from self.operands(edge.producer)

    def match(self, pattern: Pattern, root: NodeId, found: Mapping[dpl.DFPattern, relax.Expr]) -> Match:
        """Build one match, with its refusal if it has one."""
        nodes = tuple(sorted({root, *self.nodes_of(found)}))
        refusal = self.refuse_shape(root, nodes) or self.refuse_by_check(pattern, root, nodes, found)
        return Match(pattern, root, nodes, refusal and replace(refusal, pattern=pattern.name))

    def nodes_of(self, found: Mapping[dpl.DFPattern, relax.Expr]) -> Iterator[NodeId]:
        for part, expr in found.items():
            if isinstance(part, dpl.CallPattern | dpl.TupleGetItemPattern | dpl.TuplePattern):
                number = self.by_value.get(expr)
                if number is not None:
                    yield number

    def refuse_shape(self, root: NodeId, nodes: tuple[NodeId, ...]) -> Refusal | None:
        """Why nodes are not a valid unit: several scopes, or an intermediate value with an outside user."""
        graph = self.graph
        inside = set(nodes)
        for node in nodes:
            if graph.nodes[node].scope != graph.nodes[root].scope:
                return Refusal(DeclineReason.SEVERAL_BLOCKS, graph.nodes[node].var.name)
            for edge in graph.out_of[node]:
                if node != root and edge.consumer not in inside and edge.consumer != DEAD:
                    return Refusal(DeclineReason.USED_OUTSIDE, graph.nodes[node].var.name)
        # Only the root has outside users and every other node precedes it, so no path can leave and re-enter.
        return None

    def refuse_by_check(
        self,
        pattern: Pattern,
        root: NodeId,
        nodes: tuple[NodeId, ...],
        found: Mapping[dpl.DFPattern, relax.Expr],
    ) -> Refusal | None:
        if pattern.check is None:
            return None
        context = pattern_check_context(
            matched_expr=self.graph.nodes[root].value,
            annotated_expr={name: found[part] for name, part in pattern.annotations.items() if part in found},
            matched_bindings={self.graph.nodes[node].var: self.graph.nodes[node].value for node in nodes},
            var_usages=self.usages,
            value_to_bound_var=self.bound,
        )
        where = f"the check of pattern {pattern.name!r} at {described(self.graph.nodes[root].var)}"
        try:
            answer = pattern.check(context)
        except Exception as error:
            raise RuleError(
                f"{where} in {self.graph.name} failed: {type(error).__name__}: {error}"
            ) from error
        return refusal_of(answer, where)

    @cached_property
    def usages(self) -> tvm.runtime.Object:
        """The variables of the bindings that use each variable."""
        graph = self.graph
        users: tvm.runtime.Object = tvm.runtime.convert(
            {
                graph.nodes[number].var: [
                    graph.nodes[edge.consumer].var for edge in edges if edge.consumer >= 0
                ]
                for number, edges in enumerate(graph.out_of)
            }
        )
        return users

    @cached_property
    def bound(self) -> tvm.runtime.Object:
        """The variable that each value is bound to."""
        bound: tvm.runtime.Object = tvm.runtime.convert({node.value: node.var for node in self.graph.nodes})
        return bound


def without_outranked(matches: Iterable[Match]) -> list[Match]:
    """Drop the matches that share nodes with a match of an earlier entry of the same pattern table.

    The precedence is that of TVM's ``FuseOpsByPattern``: pattern by pattern, then in program order of the
    roots. Refused matches are kept, and do not block others.
    """
    found = list(matches)
    ranked = [
        (match.pattern.rank, match.root, place)
        for place, match in enumerate(found)
        if match.pattern.rank is not None and not match.refusal
    ]
    taken: set[NodeId] = set()
    outranked: set[int] = set()
    for _rank, _root, place in sorted(ranked):
        if taken.isdisjoint(found[place].nodes):
            taken.update(found[place].nodes)
        else:
            outranked.add(place)
    return [match for place, match in enumerate(found) if place not in outranked]


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


def _depth(pattern: dpl.DFPattern, known: ExprMap[int | None] | None = None) -> int | None:
    """The longest chain of values in a pattern; None if unknown."""
    known = ExprMap() if known is None else known
    if pattern not in known:
        parts = _parts(pattern)
        depths = None if parts is None else [_depth(part, known) for part in parts]
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


def _root_op(pattern: dpl.DFPattern) -> str | None:
    """The op at the root of every match; None if it is not fixed."""
    if isinstance(pattern, dpl.CallPattern) and isinstance(pattern.op, dpl.ExprPattern):
        expr = pattern.op.expr
        return str(expr.name) if isinstance(expr, tvm.ir.Op) else None
    return None
