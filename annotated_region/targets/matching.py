"""Finds the matches of a target's patterns in a function: the composites that it can claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import tvm
from tvm import relax
from tvm.relax import dpl

from annotated_region.dataflow.graph import DEAD, DataflowGraph, NodeKind
from annotated_region.errors import RuleError
from annotated_region.expr_map import ExprMap
from annotated_region.ids import NodeId
from annotated_region.notes import DeclineReason, Refusal
from annotated_region.origins import described
from annotated_region.targets.asking import refusal_of
from annotated_region.targets.pattern_parts import depth_of_pattern
from annotated_region.targets.rules import Pattern
from annotated_region.tvm_adapter.ops import pattern_check_context

__all__ = ["Match", "Matcher", "without_outranked"]


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
        by_op: dict[str | None, list[Pattern]] = {}
        for pattern in patterns:
            by_op.setdefault(pattern.root_op, []).append(pattern)
        for number, node in self.graph.numbered():
            op = node.value.op if isinstance(node.value, relax.Call) else None
            if node.kind is not NodeKind.OPERATION or not isinstance(op, tvm.ir.Op):
                continue
            candidates = (*by_op.get(op.name, ()), *by_op.get(None, ()))
            if not candidates:
                continue
            near = self.values_near(number, [pattern.depth for pattern in candidates])
            for pattern in candidates:
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
        near = self.values_near(root, [depth_of_pattern(pattern)])
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
