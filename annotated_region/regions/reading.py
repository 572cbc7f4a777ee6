"""Recovers regions from the chains of ``compiler_begin``/``compiler_end`` on the edges of a function.

For one key (target and label), a begin states that its consumer is inside and its producer outside, an end
that its producer is inside and its consumer outside, and ``end begin`` that both are inside, in different
regions. Nodes joined by an edge without a token of the key are on the same side. So a region is the set of
nodes reachable, over such edges in both directions, from a node that a token proves inside; without a label
each connected piece is a separate region, with a label all pieces form one region. A node proved both inside
and outside is an error.

Each search visits only its region and the edges around it, so reading takes time linear in the edges plus the
total size of the regions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NoReturn

from tvm import relax

from annotated_region.annotations import Annotation, Key
from annotated_region.dataflow.graph import DEAD, RESULT, DataflowGraph, DataflowNode, Edge, NodeKind
from annotated_region.errors import MalformedAnnotationError
from annotated_region.ids import NodeId, ScopeId

__all__ = ["read_regions"]


_UNUSED_BEGIN = "the result of compiler_begin is never used; use it or drop it"
_LABEL_AGAIN = (
    "the label ends and begins again, but all nodes with one label form one region; drop both, or give "
    "the second region another label"
)
_ENTERED_AGAIN = (
    "the region is left and entered again, but other edges join both ends inside; drop both annotations, or "
    "annotate the other edges too"
)
_AFTER_ANOTHER = "after a value of another region of the same target; write compiler_end before it"
_BEFORE_ANOTHER = "before another region of the same target; write compiler_begin after it"

Crossing = tuple[Edge, bool, bool]
"""An edge with tokens of a key: (edge, whether it has an end, whether it has a begin)."""


def read_regions(graph: DataflowGraph) -> list[tuple[Key, tuple[NodeId, ...]]]:
    """The regions of an annotated function, as pairs of a key and the numbers of its nodes.

    Parameters
    ----------
    graph
        The dataflow graph of the function.

    Raises
    ------
    MalformedAnnotationError
        The annotations contradict each other; the message names function, target and edge.

    Notes
    -----
    Time is linear in the number of edges plus the total size of the regions.
    """
    for edge in graph.unused_begins:
        token = graph.chains.tokens[edge.chain][-1]
        _malformed(graph, token.key, edge, _UNUSED_BEGIN)
    chains_with: dict[Key, set[int]] = {}
    for chain, keys in enumerate(graph.chains.keys):
        for key in keys:
            chains_with.setdefault(key, set()).add(chain)
    found: list[tuple[Key, tuple[NodeId, ...]]] = []
    for key, crossings in _crossings_by_key(graph).items():
        found += _RegionSearch(graph, key, crossings, chains_with[key]).regions()
    return found


def _crossings_by_key(graph: DataflowGraph) -> dict[Key, list[Crossing]]:
    sides = [_sides(tokens) for tokens in graph.chains.tokens]
    by_key: dict[Key, list[Crossing]] = {}
    for edge in _annotated_edges(graph):
        checked = sides[edge.chain]
        if isinstance(checked, Annotation):
            _malformed_chain(graph, edge, checked)
        for key, ends, begins in checked:
            by_key.setdefault(key, []).append((edge, ends, begins))
    return by_key


def _annotated_edges(graph: DataflowGraph) -> Iterator[Edge]:
    for edges in (*graph.external_out, *graph.out_of):
        for edge in edges:
            if edge.chain:
                yield edge


def _sides(tokens: tuple[Annotation, ...]) -> list[tuple[Key, bool, bool]] | Annotation:
    """The tokens of a chain by key, as (key, ends, begins); the offending token if the chain is malformed."""
    state: dict[Key, tuple[bool, bool]] = {}
    for token in tokens:
        ends, begins = state.get(token.key, (False, False))
        if begins or (ends and not token.begins):
            return token
        state[token.key] = (True, False) if not token.begins else (ends, True)
    return [(key, ends, begins) for key, (ends, begins) in state.items()]


class _RegionSearch:
    """The search for the regions of one key."""

    def __init__(self, graph: DataflowGraph, key: Key, crossings: list[Crossing], chains: set[int]) -> None:
        self.graph = graph
        self.key = key
        self.crossings = crossings
        self.chains = chains
        self.piece_of: dict[NodeId, int] = {}
        self.pieces: list[list[NodeId]] = []

    def regions(self) -> list[tuple[Key, tuple[NodeId, ...]]]:
        for edge, ends, begins in self.crossings:
            if ends:
                self.start_at_producer(edge)
            if begins:
                self.start_at_consumer(edge)
        for edge, ends, begins in self.crossings:
            self.check(edge, ends, begins)
        if not self.key.label:
            return [(self.key, tuple(sorted(piece))) for piece in self.pieces]
        return [(self.key, tuple(sorted(self.piece_of)))] if self.one_scope() else []

    # External producers, RESULT and DEAD all have negative numbers, so the producer and the consumer of an
    # edge are tested against them in separate methods.

    def start_at_producer(self, edge: Edge) -> None:
        """Start from an end, which proves its producer inside."""
        if edge.producer in self.graph.bare_externals:
            self.fail(edge, "compiler_end follows a constant, which belongs to its user; drop it")
        if edge.producer < 0:
            self.fail(
                edge, "compiler_end follows a value that is made outside; drop it, or write compiler_begin"
            )
        self.fill(edge, edge.producer)

    def start_at_consumer(self, edge: Edge) -> None:
        """Start from a begin, which proves its consumer inside."""
        if edge.consumer == RESULT:
            self.fail(edge, "compiler_begin is before the result of the function, which is outside; drop it")
        if edge.consumer == DEAD:
            self.fail(edge, _UNUSED_BEGIN)
        self.fill(edge, edge.consumer)

    def fill(self, seed: Edge, start: NodeId) -> None:
        """Search the piece around a node, breadth first, so that an error is reported near its cause."""
        if start in self.piece_of:
            return
        piece: list[NodeId] = []
        number = len(self.pieces)
        self.pieces.append(piece)
        self.piece_of[start] = number
        scope = self.graph.nodes[start].scope
        queue = deque([(start, seed)])
        while queue:
            node, over = queue.popleft()
            self.admit(node, scope, over)
            piece.append(node)
            for neighbour, edge in self.neighbours(node):
                if neighbour not in self.piece_of:
                    self.piece_of[neighbour] = number
                    queue.append((neighbour, edge))

    def admit(self, node: NodeId, scope: ScopeId, over: Edge) -> None:
        """Reject nodes that no region may contain."""
        found = self.graph.nodes[node]
        if found.kind is NodeKind.LITERAL:
            self.fail(
                over,
                f"{found.var.name!r} is a constant, which belongs to its users, so no region holds it; drop "
                "the annotation",
            )
        if found.kind is NodeKind.BOUNDARY:
            self.fail(
                over,
                f"{found.var.name!r} is {_boundary(found)}, and no region holds one; "
                f"{self.way_to_leave_out(node, over)}",
            )
        if found.scope != scope:
            self.fail(
                over,
                f"the region leaves {self.scope_path(scope)}, but a region stays in one block; write "
                "compiler_end and compiler_begin on this edge",
            )

    def way_to_leave_out(self, node: NodeId, over: Edge) -> str:
        if over.chain in self.chains:
            return "drop the annotation"
        return f"write {'compiler_end' if node == over.consumer else 'compiler_begin'} on this edge"

    def neighbours(self, node: NodeId) -> Iterator[tuple[NodeId, Edge]]:
        """The nodes joined to `node` by an edge without a token of the key; they are inside too."""
        graph = self.graph
        for edge in graph.into[node]:
            if edge.chain in self.chains or graph.is_literal(edge.producer):
                continue
            if edge.producer < 0:
                self.fail(edge, "the value comes from outside; write compiler_begin on this edge")
            yield edge.producer, edge
        for edge in graph.out_of[node]:
            if edge.chain in self.chains or edge.consumer == DEAD:
                continue
            if edge.consumer == RESULT:
                self.fail(edge, "the value leaves the region; write compiler_end on this edge")
            yield edge.consumer, edge

    def check(self, edge: Edge, ends: bool, begins: bool) -> None:
        """Check the tokens of an edge against the pieces that the search found."""
        source = self.piece_of.get(edge.producer)
        sink = self.piece_of.get(edge.consumer)
        # All pieces with the same label form one region.
        together = source == sink or bool(self.key.label)
        if begins and ends:
            if together:
                self.fail(edge, _LABEL_AGAIN if self.key.label else _ENTERED_AGAIN)
        elif begins and source is not None:
            where = "inside its own region; drop it" if together else _AFTER_ANOTHER
            self.fail(edge, f"compiler_begin is {where}")
        elif ends and sink is not None:
            where = "inside its own region; drop it" if together else _BEFORE_ANOTHER
            self.fail(edge, f"compiler_end is {where}")

    def one_scope(self) -> bool:
        """Whether the key has a region; its nodes must lie in one block."""
        scopes = dict.fromkeys(self.graph.nodes[node].scope for node in self.piece_of)
        if len(scopes) > 1:
            first, second, *_ = scopes
            edge = next(edge for edge, ends, _begins in self.crossings if self.scope_at(edge, ends) == second)
            self.fail(
                edge,
                f"the label is used in {self.scope_path(first)} and in {self.scope_path(second)}, but a "
                f"region "
                "stays in one block; give them two labels",
            )
        return bool(scopes)

    def scope_at(self, edge: Edge, ends: bool) -> ScopeId:
        return self.graph.nodes[edge.producer if ends else edge.consumer].scope

    def scope_path(self, scope: ScopeId) -> str:
        return f"{self.graph.scopes[scope].path} (block {scope})"

    def fail(self, edge: Edge, why: str) -> NoReturn:
        _malformed(self.graph, self.key, edge, why)


def _boundary(node: DataflowNode) -> str:
    """The kind of a boundary node, for messages."""
    if isinstance(node.binding, relax.MatchCast):
        return "a MatchCast"
    kinds = {relax.If: "an If", relax.Function: "a local function"}
    return next((what for kind, what in kinds.items() if isinstance(node.value, kind)), "an impure call")


def _malformed(graph: DataflowGraph, key: Key, edge: Edge, why: str) -> NoReturn:
    raise MalformedAnnotationError(f"{graph.name}: target {key}, edge {graph.describe(edge)}: {why}")


def _malformed_chain(graph: DataflowGraph, edge: Edge, token: Annotation) -> NoReturn:
    chain = " ".join(
        "begin" if other.begins else "end"
        for other in graph.chains.tokens[edge.chain]
        if other.key == token.key
    )
    _malformed(
        graph,
        token.key,
        edge,
        f"the chain {chain!r} is not valid; between two nodes it is empty (same side), 'end' (producer "
        "inside), 'begin' (consumer inside) or 'end begin' (two regions)",
    )
