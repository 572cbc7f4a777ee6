"""The rewriter owns a graph during a pass: it tracks the producer and the readers of each tensor.

A pass visits the nodes once, in order. Each node is passed to `Rewrite.rewritten`, which may inspect the
nodes placed so far, and keeps the node or returns a replacement::

    placed                       current     waiting
    conv --> linear -->          linear -->  relu ...
             [dead: it has       [replaced by one linear node, which is visited again]
              no reader left]

Nodes that a rewrite adds are inserted before the current node, and are visited too. A placed node is removed
together with its last reader, so reader counts are exact at every step and no pass leaves dead nodes.

Every pass terminates, because each step lowers `Rewrite.measure`: tuples of natural numbers in lexicographic
order are well-founded (Dershowitz and Manna, Proving Termination with Multiset Orderings, 1979). The measure
depends on the whole graph, so it is compared at each step only under `verification`, which tests and fuzzing
with random graphs enable. Otherwise a limit on the number of steps turns a defect in a pass into an error.

Notes
-----
O(nodes + operands), not counting the rewrites.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from annotated_region.backends.dnnl.graph import Graph, Kind, Node, TensorId
from annotated_region.backends.dnnl.parameters import Curve
from annotated_region.errors import CodegenError

__all__ = ["Rewrite", "Rewriter", "verification", "verified"]

PRODUCTS = (Kind.CONVOLUTION, Kind.DECONVOLUTION, Kind.MATMUL)
LINKS = (Kind.ELTWISE, Kind.BINARY)
"""The kinds that `Fuse` appends to a product."""

STEPS_PER_NODE = 1000
"""The step limit, far above what any observed graph needs; a pass that exceeds it does not terminate."""

Verify: TypeAlias = Callable[[Graph, str], None]
"""Raises if a graph is invalid; the string names the pass that made it."""

_verify: ContextVar[Verify | None] = ContextVar("annotated_region_dnnl_verification", default=None)


@contextmanager
def verification(verify: Verify) -> Iterator[None]:
    """Check the graph after each pass, and the measure of each pass at every step; for tests."""
    token = _verify.set(verify)
    try:
        yield
    finally:
        _verify.reset(token)


def verified(graph: Graph, maker: str) -> None:
    """Check the graph that `maker` produced, if `verification` is enabled."""
    verify = _verify.get()
    if verify is not None:
        verify(graph, maker)


class Rewrite(ABC):
    """One pass over a graph; an instance serves one run."""

    def __init__(self, rewriter: Rewriter) -> None:
        """Analyze the graph before the run."""
        self.rewriter = rewriter
        self.graph = rewriter.graph

    @abstractmethod
    def rewritten(self, node: Node) -> Node | TensorId | None:
        """The replacement of a node.

        Returns a node with the same result; a tensor with the same elements, if the node is redundant; or
        None to keep it. Nodes added to the graph are inserted before it, and discarded if the result is None.
        """

    def measure(self) -> tuple[int, ...]:
        """The measure that each step lowers: by default, the number of computing nodes, then of all nodes."""
        nodes = list(self.rewriter.nodes())
        return sum(node.kind not in VIEWS for node in nodes), len(nodes)


VIEWS = (Kind.RESHAPE, Kind.PERMUTE)


class Rewriter:
    """A graph in the middle of a pass.

    Attributes
    ----------
    graph
        Its tensors, inputs and outputs. During the pass, its node list holds only the nodes added before
        the current node.
    """

    def __init__(self, graph: Graph) -> None:
        """Count the readers of each tensor."""
        self.graph = graph
        self._waiting = deque(graph.nodes)
        self._placed: dict[TensorId, Node] = {}
        self._position: dict[TensorId, int] = {}
        self._same: dict[TensorId, TensorId] = {}
        self._roots: dict[TensorId, Node] = {}
        self._readers: dict[TensorId, Counter[TensorId]] = {}
        self._counts: dict[TensorId, int] = {}
        # Placed, waiting, and some that were removed.
        self._nodes = {node.output: node for node in graph.nodes}
        self._results = Counter(graph.outputs)
        for node in graph.nodes:
            self._read(node)

    # --- queries for rewrites

    def producer(self, tensor: TensorId) -> Node | None:
        """The placed node that computes a tensor, or None."""
        return self._placed.get(tensor)

    def maker(self, tensor: TensorId) -> Node | None:
        """The node that computes a tensor, placed or waiting, or None."""
        return self._nodes.get(tensor)

    def own(self, tensor: TensorId, kind: Kind | None = None, algorithm: str | None = None) -> Node | None:
        """The producer of a tensor, if it has this kind and algorithm and a single reader."""
        node = self._placed.get(tensor)
        if node is None or kind not in (None, node.kind) or self.reads(tensor) != 1:
            return None
        return node if algorithm in (None, node.algorithm) else None

    def own_linear(self, tensor: TensorId) -> tuple[Node, Curve] | None:
        """The producer, under the conditions of `own`, if it is a linear function, with its parameters."""
        node = self.own(tensor)
        return None if node is None or node.linear is None else (node, node.linear)

    def own_multiple(self, tensor: TensorId) -> tuple[TensorId, float]:
        """A tensor with a single reader as another tensor and the factor that multiplies it."""
        found = self.own_linear(tensor)
        if found is not None:
            return (tensor, 1.0) if found[1].beta else (found[0].inputs[0], found[1].alpha)
        quotient = self.own(tensor, Kind.BINARY, "binary_div")
        divisor = self.scalar(quotient.inputs[1]) if quotient is not None and not quotient.post_ops else None
        if quotient is None or divisor is None or not divisor or not math.isfinite(divisor):
            return tensor, 1.0
        return quotient.inputs[0], 1.0 / divisor

    def scalar(self, tensor: TensorId) -> float | None:
        """The value of a constant scalar, through views, or None."""
        node = self.producer(tensor)
        if node is not None and node.kind is Kind.RESHAPE:
            return self.scalar(node.inputs[0])
        return self.graph.tensors[tensor].scalar

    def reads(self, tensor: TensorId) -> int:
        """The number of uses of a tensor, including as a result of the region."""
        return self._counts.get(tensor, 0) + self._results[tensor]

    def reader(self, tensor: TensorId) -> Node | None:
        """The only reader of a tensor; None if it has several, or is a result."""
        if self.reads(tensor) != 1 or self.is_result(tensor):
            return None
        return self._nodes[next(reader for reader, times in self._readers[tensor].items() if times)]

    def is_result(self, tensor: TensorId) -> bool:
        """Whether a tensor leaves the region."""
        return self._results[tensor] > 0

    def position(self, tensor: TensorId) -> int:
        """The position of the producer of a tensor among the placed nodes; -1 if there is none."""
        return self._position.get(tensor, -1)

    def root(self, tensor: TensorId) -> Node | None:
        """The product at the start of the chain that ends in a tensor, or None.

        A chain is what `Fuse` can merge into one primitive: element-wise and binary nodes, each the only
        reader of its predecessor.
        """
        return self._roots.get(tensor)

    def nodes(self) -> Iterator[Node]:
        """All nodes in order: placed, then waiting."""
        yield from self._placed.values()
        yield from map(self._resolved, self._waiting)

    # --- modifications by rewrites, besides adding nodes to the graph

    def exchange(self, node: Node) -> None:
        """Replace a placed node by one with the same result and operands."""
        self._placed[node.output] = self._nodes[node.output] = node

    def run(self, rewrite: Rewrite) -> int:
        """Visit the nodes once; returns the number of steps."""
        limit = STEPS_PER_NODE * (len(self._waiting) + 1)
        measure = rewrite.measure() if _verify.get() else ()
        steps = 0
        self.graph.nodes = []
        while self._waiting:
            node = self._resolved(self._waiting.popleft())
            self.graph.nodes.clear()
            answer = rewrite.rewritten(node)
            if answer is None:
                self._place(node)
                continue
            self._step(node, answer)
            steps += 1
            if steps > limit:
                raise CodegenError(
                    f"{self.graph.symbol}: the pass {type(rewrite).__name__} of target 'dnnl' does not end"
                )
            measure = self._fallen(rewrite, measure)
        self.graph.nodes = list(self._placed.values())
        return steps

    def _fallen(self, rewrite: Rewrite, before: tuple[int, ...]) -> tuple[int, ...]:
        if _verify.get() is None:
            return before
        after = rewrite.measure()
        assert after < before, f"{type(rewrite).__name__}: the measure went from {before} to {after}"
        return after

    # --- bookkeeping

    def _place(self, node: Node) -> None:
        self._placed[node.output] = node
        self._position[node.output] = len(self._position)
        if node.kind in PRODUCTS:
            self._roots[node.output] = node
        elif node.kind in LINKS:
            chains = (self._roots[t] for t in node.inputs if t in self._roots and self.reads(t) == 1)
            self._roots.update((node.output, root) for root in chains)

    def _step(self, node: Node, answer: Node | TensorId) -> None:
        if isinstance(answer, Node):
            assert answer.output == node.output
            self.graph.nodes.append(answer)
        else:
            self._rename(node.output, answer)
        for each in self.graph.nodes:
            self._nodes[each.output] = each
            self._read(each)
        self._unread(node)
        self._waiting.extendleft(reversed(self.graph.nodes))

    def _rename(self, gone: TensorId, tensor: TensorId) -> None:
        """Redirect the readers of one tensor to another; waiting nodes are updated when visited."""
        self._same[gone] = tensor
        self._readers.setdefault(tensor, Counter()).update(self._readers.pop(gone, ()))
        self._counts[tensor] = self._counts.get(tensor, 0) + self._counts.pop(gone, 0)
        self.graph.outputs = [tensor if each == gone else each for each in self.graph.outputs]
        self._results = Counter(self.graph.outputs)

    def _resolved(self, node: Node) -> Node:
        if not self._same or self._same.keys().isdisjoint(node.operands):
            return node
        return node.with_operands(lambda tensor: self._same.get(tensor, tensor))

    def _read(self, node: Node) -> None:
        for tensor in node.operands:
            self._readers.setdefault(tensor, Counter())[node.output] += 1
            self._counts[tensor] = self._counts.get(tensor, 0) + 1

    def _unread(self, node: Node) -> None:
        """Remove the reads of a node, and the producers that have no readers left."""
        gone = [node]
        while gone:
            reader = gone.pop()
            for tensor in reader.operands:
                self._readers[tensor][reader.output] -= 1
                self._counts[tensor] -= 1
                if tensor in self._placed and self.reads(tensor) == 0:
                    gone.append(self._placed.pop(tensor))
