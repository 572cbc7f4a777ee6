"""Finds the matches of a target's patterns in a function: the composites that it could claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tvm
from tvm import relax
from tvm.relax import dpl

from annotated_region.dataflow.graph import DEAD, DataflowGraph, NodeKind
from annotated_region.errors import RuleError
from annotated_region.targets.rules import Pattern

__all__ = ["Match", "Matcher"]


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a pattern.

    Attributes
    ----------
    pattern
        What matched.
    root
        The node that the pattern was matched at.
    nodes
        The nodes of the composite, in program order.
    refusal
        Why this match cannot be claimed; empty if it can.
    """

    pattern: Pattern
    root: int
    nodes: tuple[int, ...]
    refusal: str = ""


class Matcher:
    """Matches patterns in one function without annotations."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.by_value = {
            hash(node.value): number
            for number, node in enumerate(graph.nodes)
            if node.kind in (NodeKind.OPERATION, NodeKind.STRUCTURE)
        }
        self.values = relax.analysis.get_var2val(graph.func)

    def matches(self, patterns: Iterable[Pattern]) -> Iterator[Match]:
        """All matches, in program order of their roots, then in the order of `patterns`.

        Raises
        ------
        RuleError
            The check of a pattern failed, or answered with something that is no answer.
        """
        by_op: dict[str | None, list[Pattern]] = {}
        for pattern in patterns:
            by_op.setdefault(_root_op(pattern.pattern), []).append(pattern)
        for number, node in enumerate(self.graph.nodes):
            if node.kind is not NodeKind.OPERATION or not isinstance(node.value.op, tvm.ir.Op):
                continue
            for pattern in (*by_op.get(node.value.op.name, ()), *by_op.get(None, ())):
                found = pattern.pattern.extract_matched_expr(node.value, self.values)
                if found is not None:
                    yield self.match(pattern, number, found)

    def match(self, pattern: Pattern, root: int, found: Mapping[dpl.DFPattern, relax.Expr]) -> Match:
        """One match, checked."""
        nodes = tuple(sorted({root, *self.nodes_of(found)}))
        refusal = self.refuse_shape(root, nodes) or self.refuse_by_check(pattern, root, nodes, found)
        return Match(pattern, root, nodes, refusal)

    def nodes_of(self, found: Mapping[dpl.DFPattern, relax.Expr]) -> Iterator[int]:
        for part, expr in found.items():
            if isinstance(part, dpl.CallPattern | dpl.TupleGetItemPattern | dpl.TuplePattern):
                number = self.by_value.get(hash(expr))
                if number is not None:
                    yield number

    def refuse_shape(self, root: int, nodes: tuple[int, ...]) -> str:
        """Why the nodes are no unit: another scope, or a value that leaves before the root does."""
        graph = self.graph
        inside = set(nodes)
        for node in nodes:
            if graph.nodes[node].scope != graph.nodes[root].scope:
                return f"its op {graph.nodes[node].var.name!r} is in another block"
            for edge in graph.out_of[node]:
                if node != root and edge.consumer not in inside and edge.consumer != DEAD:
                    return f"its intermediate value {graph.nodes[node].var.name!r} is used outside of it too"
        # Only the root is used outside and every other node comes before it, so no path can return.
        return ""

    def refuse_by_check(
        self, pattern: Pattern, root: int, nodes: tuple[int, ...], found: Mapping[dpl.DFPattern, relax.Expr]
    ) -> str:
        if pattern.check is None:
            return ""
        context = tvm.ir.make_node(
            "relax.transform.PatternCheckContext",
            matched_expr=self.graph.nodes[root].value,
            annotated_expr={name: found[part] for name, part in pattern.annotations.items() if part in found},
            matched_bindings={self.graph.nodes[node].var: self.graph.nodes[node].value for node in nodes},
            var_usages=self.usages,
            value_to_bound_var=self.bound,
        )
        where = f"the check of pattern {pattern.name!r} at {self.graph.nodes[root].var.name!r}"
        try:
            answer = pattern.check(context)
        except Exception as error:
            raise RuleError(
                f"{where} in {self.graph.name} failed: {type(error).__name__}: {error}"
            ) from error
        return refusal_of(answer, where)

    @cached_property
    def usages(self) -> tvm.runtime.Object:
        """For each variable, the variables of the bindings that use it."""
        graph = self.graph
        return tvm.runtime.convert(
            {
                graph.nodes[number].var: [
                    graph.nodes[edge.consumer].var for edge in edges if edge.consumer >= 0
                ]
                for number, edges in enumerate(graph.out_of)
            }
        )

    @cached_property
    def bound(self) -> tvm.runtime.Object:
        """For each value, the variable that it is bound to."""
        return tvm.runtime.convert({node.value: node.var for node in self.graph.nodes})


def refusal_of(answer: object, where: str) -> str:
    """The reason in the answer of a rule or check; empty when it claims.

    Raises
    ------
    RuleError
        The answer is neither True, nor False, nor a reason.
    """
    if isinstance(answer, bool | int | np.bool_):
        return "" if answer else "not supported"
    if isinstance(answer, str) and answer:
        return answer
    raise RuleError(f"{where} answered {answer!r}; answer True, False, or the reason as a text")


def _root_op(pattern: dpl.DFPattern) -> str | None:
    """The name of the op that a match must end in; None if any may."""
    if isinstance(pattern, dpl.CallPattern) and isinstance(pattern.op, dpl.ExprPattern):
        expr = pattern.op.expr
        return str(expr.name) if isinstance(expr, tvm.ir.Op) else None
    return None
