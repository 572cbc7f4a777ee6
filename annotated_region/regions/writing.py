"""Writes regions into a function as annotations, and strips annotations from a function.

The regions that contain only the producer of an edge end on it, those that contain only the consumer begin on
it: first the ends, innermost first, then the begins, outermost first. Ends are placed directly after the
producer, begins directly before their first consumer in a block. The chains of one value form a trie: chains
with a common prefix share its bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import tvm
from tvm import relax

from annotated_region.annotations import Key
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import RESULT, DataflowGraph, Edge
from annotated_region.dataflow.pieces import pieces
from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.ids import NodeId, ScopeId
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion

__all__ = ["strip_annotations", "write_annotations"]

Nodes = tuple[NodeId, ...]
Path = tuple[int, ...]
"""The annotations along one edge, as tokens: ``2 * mark`` ends the mark (its index), ``2 * mark + 1``
begins it.
"""

_EXTERNAL: Final = NodeId(-1)
"""Stands for any producer that is not a node of the function."""


@paused_collector()
def strip_annotations(graph: DataflowGraph) -> relax.Function:
    """The function without its annotations; `func` itself if it has none. O(bindings)."""
    annotated = graph.annotation_values
    if not annotated:
        return graph.func
    values: ExprMap[relax.Expr] = ExprMap()

    def original(leaf: relax.Expr) -> relax.Expr:
        return values.get(leaf, leaf)

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings[:]:
            argument = annotated.get(binding.var)
            if argument is None:
                yield rebind(binding, replace_operands(rewriter.nested(binding.value), original))
                continue
            value = original(argument)
            if graph.number_of(binding.var) is None:
                values[binding.var] = value
            else:  # used outside its block, so it stays as an alias
                yield relax.VarBinding(binding.var, value, binding.span)

    return FunctionRewriter(bindings, original).function(graph.func)


@paused_collector()
def write_annotations(graph: DataflowGraph, regions: Sequence[NodeRegion]) -> relax.Function:
    """The function with `regions` written into it.

    Parameters
    ----------
    graph
        The dataflow graph of a function without annotations.
    regions
        Its regions, in canonical order.

    Notes
    -----
    Time is linear in the edges, each times the number of regions and composites around its ends.
    """
    return _Writer(graph, _marks_of(graph, regions)).function()


@dataclass(slots=True)
class _Mark:
    """The nodes that one key annotates: a region, or a composite inside one."""

    key: Key
    nodes: Nodes


def _marks_of(graph: DataflowGraph, regions: Sequence[NodeRegion]) -> list[_Mark]:
    """A mark for each region, then one for each composite inside one; labelled where necessary."""
    labels = _Labels(regions)
    overlapping = _overlapping_plain_regions(regions)
    marks = []
    for index, region in enumerate(regions):
        if region.is_composite:
            label = labels.of_unit(region.target, region.units[0])
        elif region.label:
            label = labels.given(region.target, region.label)
        elif index in overlapping or len(list(pieces(graph, region.nodes))) > 1:
            label = labels.fresh(region.target)
        else:
            label = ""
        marks.append(_Mark(Key(region.target, label), region.nodes))
    inner = dict.fromkeys(
        (region.target, unit) for region in regions if not region.is_composite for unit in region.units
    )
    marks += [_Mark(Key(target, labels.of_unit(target, unit)), unit.nodes) for target, unit in inner]
    return marks


class _Labels:
    """Generates labels that no other region of the target has."""

    def __init__(self, regions: Iterable[NodeRegion]) -> None:
        self.taken = {(region.target, region.label) for region in regions if not region.is_composite}
        self.handed_out: set[tuple[str, str]] = set()
        self.counts: dict[tuple[str, str], int] = {}

    def given(self, target: str, label: str) -> str:
        """The label that a region was read with; a fresh one if another part of that region has taken it."""
        if (target, label) in self.handed_out:
            return self.fresh(target)
        self.handed_out.add((target, label))
        return label

    def fresh(self, target: str) -> str:
        return self._next(target, "r")

    def of_unit(self, target: str, unit: ClaimedUnit) -> str:
        return self._next(target, "#" if unit.composite is None else f"{unit.composite}#")

    def _next(self, target: str, prefix: str) -> str:
        while True:
            count = self.counts.get((target, prefix), 0)
            self.counts[target, prefix] = count + 1
            if (target, f"{prefix}{count}") not in self.taken:
                return f"{prefix}{count}"


def _overlapping_plain_regions(regions: Sequence[NodeRegion]) -> set[int]:
    """The unlabelled plain regions that share a node with another one of their target."""
    holder: dict[tuple[str, int], int] = {}
    overlapping = set()
    for index, region in enumerate(regions):
        if region.is_composite or region.label:
            continue
        for node in region.nodes:
            other = holder.setdefault((region.target, node), index)
            if other != index:
                overlapping |= {index, other}
    return overlapping


@dataclass(slots=True)
class _Stop:
    """A node of the trie of chains that start at one value.

    Attributes
    ----------
    var
        The variable that the annotated value is bound to here.
    root
        The name of the value, from which the names of its annotations are derived.
    onward
        The next annotation by (token, scope). An end follows its producer and serves all blocks, so its scope
        is -1; a begin serves the block of its consumer.
    """

    var: relax.Var
    root: str
    onward: dict[tuple[int, int], _Stop] = field(default_factory=dict)


class _Writer:
    def __init__(self, graph: DataflowGraph, marks: list[_Mark]) -> None:
        self.graph = graph
        self.marks = marks
        self.around: list[Path] = _marks_around(graph, marks)
        attributes = {mark.key: _attributes(mark.key) for mark in marks}
        self.attrs = [attributes[mark.key] for mark in marks]
        self.ops = (tvm.ir.Op.get(graph.end), tvm.ir.Op.get(graph.begin))
        self.stops: ExprMap[_Stop] = ExprMap()
        self.leaving: dict[int, dict[Path, bool]] = {}
        self.scope_of_block = ExprMap((scope.block, scope.index) for scope in graph.scopes)
        self.consumer = RESULT

    def function(self) -> relax.Function:
        for edge in self.graph.edges():
            self.note_ends(edge)
        for node in self.lost_nodes():
            self.leaving.setdefault(node, {}).setdefault(self.ends_of(node), False)
        return FunctionRewriter(self.bindings, self.to_result).function(self.graph.func)

    def path(self, producer: NodeId, consumer: NodeId) -> Path:
        """The tokens on an edge between two nodes."""
        inside = self.around[producer] if producer >= 0 else ()
        target = self.around[consumer] if consumer >= 0 else ()
        if inside == target or self.graph.is_literal(producer):
            return ()
        ends = [2 * mark for mark in reversed(inside) if mark not in target]
        begins = [2 * mark + 1 for mark in target if mark not in inside]
        return (*ends, *begins)

    def ends_of(self, node: int) -> Path:
        return tuple(2 * mark for mark in reversed(self.around[node]))

    def note_ends(self, edge: Edge) -> None:
        """Record the chain of ends to place behind a producer, and whether it is used outside its block."""
        if edge.producer < 0:
            return
        ends = tuple(token for token in self.path(edge.producer, edge.consumer) if token % 2 == 0)
        if not ends:
            return
        nodes = self.graph.nodes
        stays = edge.consumer >= 0 and nodes[edge.consumer].scope == nodes[edge.producer].scope
        behind = self.leaving.setdefault(edge.producer, {})
        behind[ends] = behind.get(ends, False) or not stays

    def lost_nodes(self) -> Iterator[NodeId]:
        """One node of each piece that no edge enters or leaves: an unused end must mark it."""
        for mark in self.marks:
            inside = set(mark.nodes)
            for piece in pieces(self.graph, mark.nodes):
                if not any(self.crosses(node, inside) for node in piece):
                    yield max(piece)

    def crosses(self, node: NodeId, inside: set[NodeId]) -> bool:
        return any(
            edge.producer not in inside and not self.graph.is_literal(edge.producer)
            for edge in self.graph.into[node]
        ) or any(edge.consumer not in inside for edge in self.graph.out_of[node])

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        scope = self.scope_of_block[block]
        for binding in block.bindings[:]:
            number = self.graph.number_of(binding.var)
            assert number is not None, "the function has no annotations, so every binding is a node"
            value, begins = self.annotated(rewriter.nested(binding.value), number, scope)
            yield from begins
            yield rebind(binding, value)
            for ends in self.leaving.get(number, ()):
                yield from self.ends(number, ends, scope)

    def annotated(
        self, value: relax.Expr, consumer: NodeId, scope: ScopeId
    ) -> tuple[relax.Expr, list[relax.Binding]]:
        """The value of a node with its operands annotated, and the begins to place before it."""
        begins: list[relax.Binding] = []
        changed = replace_operands(value, lambda expr: self.operand(expr, consumer, scope, begins))
        return changed, begins

    def operand(
        self, expr: relax.Expr, consumer: NodeId, scope: ScopeId, begins: list[relax.Binding]
    ) -> relax.Expr:
        """The replacement of the operand `expr`; begins that do not exist yet are appended to `begins`."""
        if not isinstance(expr, relax.Var):
            return expr
        producer = self.graph.number_of(expr)
        stop = self.stop(expr)
        for token in self.path(_EXTERNAL if producer is None else producer, consumer):
            where = scope if token % 2 else -1
            if (token, where) not in stop.onward:
                begins.append(self.annotate(stop, token, scope, leaves=False))
            stop = stop.onward[token, where]
        return stop.var

    def to_result(self, expr: relax.Expr) -> relax.Expr:
        """The replacement of `expr` in a function result, which lies outside every region."""
        if not isinstance(expr, relax.Var):
            return expr
        producer = self.graph.number_of(expr)
        stop = self.stop(expr)
        for token in () if producer is None else self.path(producer, RESULT):
            stop = stop.onward[token, -1]
        return stop.var

    def ends(self, producer: NodeId, ends: Path, scope: ScopeId) -> Iterator[relax.Binding]:
        """The bindings of a chain of ends behind a producer that do not exist yet."""
        stop = self.stop(self.graph.nodes[producer].var)
        leaving = self.leaving[producer]
        for length, token in enumerate(ends, start=1):
            if (token, -1) not in stop.onward:
                yield self.annotate(stop, token, scope, leaves=leaving.get(ends[:length], False))
            stop = stop.onward[token, -1]

    def annotate(self, stop: _Stop, token: int, scope: ScopeId, leaves: bool) -> relax.Binding:
        """Bind the annotation `token` of the value at `stop`, and add it to the trie."""
        begins = token % 2
        value = relax.Call(self.ops[begins], [stop.var], self.attrs[token // 2], ret_ty=stop.var.ty)
        inside = self.graph.scopes[scope].is_dataflow and not leaves
        name = f"{stop.root}_{'begin' if begins else 'end'}"
        var = (relax.DataflowVar if inside else relax.Var)(name, stop.var.ty)
        stop.onward[token, scope if begins else -1] = _Stop(var, stop.root)
        return relax.VarBinding(var, value)

    def stop(self, var: relax.Var) -> _Stop:
        """The root of the trie of a value."""
        return self.stops.get(var) or self.stops.setdefault(var, _Stop(var, var.name))


def _marks_around(graph: DataflowGraph, marks: Sequence[_Mark]) -> list[Path]:
    """For each node, the marks that contain it; interned, so that most comparisons succeed by identity."""
    around: list[list[int]] = [[] for _ in graph.nodes]
    for index, mark in enumerate(marks):
        for node in mark.nodes:
            around[node].append(index)
    interned: dict[Path, Path] = {}
    return [interned.setdefault(path, path) for path in map(tuple, around)]


def _attributes(key: Key) -> tvm.ir.Attrs:
    """The attributes that all annotations of a key share."""
    label = {"region": key.label} if key.label else {}
    attributes: tvm.ir.Attrs = tvm.ir.make_node("ir.DictAttrs", compiler=key.target, **label)
    return attributes
