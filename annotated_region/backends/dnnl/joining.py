"""Products of one operand with several weights become one product with these side by side.

::

    x --> matmul(W1) + b1 --> q                                    +--> slice --> q
    x --> matmul(W2) + b2 --> k     =>     x --> matmul(W) + b --->+--> slice --> k
    x --> matmul(W3) + b3 --> v                                    +--> slice --> v

The operand is read once, and threads meet once instead of three times. The slices are views, which attention
reads where they lie. The weights are put side by side when the code is generated, so that neither the library
nor a process that runs it holds them twice.

Joined are products with constant weights and no post-operation but a bias, unless a result leaves the region
(it would have to be copied), a weight is read elsewhere too (it would be held twice), the joined product is
wider than `WIDEST` (each has work for all threads), or a result is read by what copies it and the product is
not as deep as `DEEP` (the copies take longer than what is won).

Notes
-----
O(nodes + operands); run it behind `fuse`, when it is known which product has what behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

from annotated_region.backends.dnnl.graph import (
    DataType,
    Graph,
    Joined,
    Kind,
    Node,
    Part,
    TensorId,
    View,
    same_shape,
)

__all__ = ["join_products"]

WIDEST = 4096
"""Columns: two products of 5632 columns each take three to five per cent longer when they are one."""

DEEP = 1024
"""Rows of the weight."""

VIEWS = (Kind.RESHAPE, Kind.PERMUTE)
READERS = (Kind.ATTENTION, Kind.MATMUL)
"""What reads a part of a larger tensor where it lies."""


def join_products(graph: Graph) -> None:
    """Join the products of a graph that pay; what they were made of is listed in ``graph.joined``."""
    _Joining(graph).run()


@dataclass(frozen=True, slots=True)
class _Member:
    """A product that may be joined: its node, its weight and its bias."""

    node: Node
    weight: Part
    bias: Part | None


class _Joining:
    """What is known of the tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.parts: dict[TensorId, Part] = {
            index: Part(tensor.source, (), tensor.shape[-1])
            for index, tensor in enumerate(graph.tensors)
            if isinstance(tensor.source, str) and all(isinstance(extent, int) for extent in tensor.shape)
        }
        self.roots: dict[TensorId, TensorId] = {}
        self.copied: set[TensorId] = set()
        self.leaving = set(graph.outputs)
        self.reads: Counter[str | None] = Counter()
        self.names: dict[tuple[Part, ...], TensorId] = {}

    def run(self) -> None:
        self.reads.update(self.parts[tensor].name for tensor in self.graph.outputs if tensor in self.parts)
        for node in self.graph.nodes:
            self.look_at_operands(node)
        for node in reversed(self.graph.nodes):
            self.look_at_readers(node)
        groups = self.groups()
        alike = Counter(tuple(member.weight for member in group) for group in groups)
        joined: dict[TensorId, list[_Member]] = {}
        gone: set[TensorId] = set()
        for group in groups:
            weights = tuple(member.weight for member in group)
            if all(self.reads[weight.name] == alike[weights] for weight in weights):
                joined[group[0].node.output] = group
                gone.update(member.node.output for member in group)
        nodes, self.graph.nodes = self.graph.nodes, []
        for node in nodes:
            if node.output in joined:
                self.join(joined[node.output])
            elif node.output not in gone:
                self.graph.nodes.append(node)

    def look_at_operands(self, node: Node) -> None:
        """Which constants are read, and through which views."""
        part = self.parts.get(node.inputs[0]) if node.kind in VIEWS else None
        shape = self.graph.shape(node.output)
        if node.kind is Kind.RESHAPE:
            self.roots[node.output] = self.root(node.inputs[0])
        if part is not None:
            view = View(node.ints if node.kind is Kind.PERMUTE else None, _numbers(shape))
            self.parts[node.output] = Part(part.name, (*part.views, view), _numbers(shape)[-1])
            self.reads[part.name] += node.output in self.leaving
            return
        self.reads.update(self.parts[each].name for each in node.operands if each in self.parts)

    def look_at_readers(self, node: Node) -> None:
        """Which tensors leave the region, or are copied by those who read them."""
        if node.kind in VIEWS:
            self.leaving.update(node.inputs if node.output in self.leaving else ())
            self.copied.update(node.inputs if node.output in self.copied else ())
        elif node.kind not in READERS:
            self.copied.update(node.operands)

    def root(self, tensor: TensorId) -> TensorId:
        """What a tensor is a reshaped view of."""
        return self.roots.get(tensor, tensor)

    def groups(self) -> list[list[_Member]]:
        """The products with one left operand, in order, where there are several."""
        members = [member for node in self.graph.nodes if (member := self.member(node)) is not None]
        alone = Counter(member.weight.name for member in members)
        by_operand: dict[TensorId, list[list[_Member]]] = {}
        for member in members:
            if self.reads[member.weight.name] != alone[member.weight.name]:
                continue
            groups = by_operand.setdefault(self.root(member.node.inputs[0]), [])
            fitting = next((group for group in groups if self.fits(group[0], member)), None)
            if fitting is None:
                groups.append([member])
            else:
                fitting.append(member)
        found = (group for groups in by_operand.values() for group in groups)
        return [group for group in found if len(group) > 1 and _width(group) <= WIDEST]

    def member(self, node: Node) -> _Member | None:
        if node.kind is not Kind.MATMUL or node.post_ops or node.ints or node.floats:
            return None
        left, right = node.inputs[:2]
        weight = self.parts.get(right)
        biases = [self.parts.get(tensor) for tensor in node.inputs[2:]]
        is_float = all(self.graph.dtype(each) is DataType.FLOAT32 for each in (*node.inputs, node.output))
        if weight is None or None in biases or not is_float or left in self.parts:
            return None
        rows = self.graph.shape(right)[-2]
        is_deep = isinstance(rows, int) and rows >= DEEP
        if node.output in self.leaving or (node.output in self.copied and not is_deep):
            return None
        return _Member(node, weight, biases[0] if biases else None)

    def fits(self, first: _Member, other: _Member) -> bool:
        (left, right), (data, weight) = first.node.inputs[:2], other.node.inputs[:2]
        shape = self.graph.shape
        return same_shape(shape(left), shape(data)) and same_shape(shape(right)[:-1], shape(weight)[:-1])

    def join(self, group: list[_Member]) -> None:
        """Put one product and its parts in the place of the first product of a group."""
        first = group[0].node
        graph, width = self.graph, _width(group)
        weight = self.constant((member.weight for member in group), graph.shape(first.inputs[1]), width)
        inputs = [first.inputs[0], weight]
        if any(member.bias for member in group):
            parts = (member.bias or Part(None, (), member.weight.width) for member in group)
            rank = len(graph.shape(first.output))
            inputs.append(self.constant(parts, (1,) * rank, width))
        whole = graph.tensor((*graph.shape(first.output)[:-1], width))
        graph.nodes.append(replace(first, inputs=tuple(inputs), output=whole))
        ends = accumulate(member.weight.width for member in group)
        for member, end in zip(group, ends, strict=True):
            output = member.node.output
            rank = len(graph.shape(output))
            begins = (*(0,) * (rank - 1), end - member.weight.width)
            graph.nodes.append(Node(Kind.SLICE, (whole,), output, ints=(*begins, *(1,) * rank)))

    def constant(self, parts: Iterable[Part], like: tuple[object, ...], width: int) -> TensorId:
        """The tensor of parts side by side; the same parts are joined once."""
        key = tuple(parts)
        if key not in self.names:
            name = f"joined_{len(self.names)}"
            shape = (*_numbers(like)[:-1], width)
            self.names[key] = self.graph.tensor(shape, source=name)
            self.graph.joined[name] = Joined(key, shape)
        return self.names[key]


def _width(group: list[_Member]) -> int:
    return sum(member.weight.width for member in group)


def _numbers(shape: Iterable[object]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))
