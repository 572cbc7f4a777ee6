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

It runs behind `fuse`, when it is known which product has what behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from annotated_region.backends.dnnl.graph import (
    DataType,
    Dim,
    Joined,
    Kind,
    Node,
    Part,
    TensorId,
    View,
    same_shape,
)
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Begins, Permutation
from annotated_region.backends.dnnl.rewriting.rewriter import VIEWS, Rewrite, Rewriter

__all__ = ["JoinProducts"]

WIDEST = 4096
"""Columns: two products of 5632 columns each take three to five per cent longer when they are one."""

DEEP = 1024
"""Rows of the weight."""

READERS = (Kind.ATTENTION, Kind.MATMUL)
"""What reads a part of a larger tensor where it lies."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A product that may be joined: its node, its weight and its bias."""

    node: Node
    weight: Part
    bias: Part | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the columns of a member are in the product of its group."""

    group: tuple[_Member, ...]
    begin: int

    @property
    def width(self) -> int:
        return sum(member.weight.width for member in self.group)


class JoinProducts(Rewrite):
    """Join the products that pay; what they were made of is listed in ``graph.joined``.

    The groups are chosen before the first step. The joined product stands where the first of its group stood,
    and each product of the group becomes a slice of it.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        """Choose the groups."""
        super().__init__(rewriter)
        self.graph = rewriter.graph
        self.names: dict[tuple[Part, ...], TensorId] = {}
        self.whole: dict[TensorId, TensorId] = {}  # the joined product, by the first result of the group
        readers = _Readers(self.graph.nodes, self.graph.outputs)
        groups = _Groups(rewriter, readers, _Constants(rewriter)).chosen()
        self.places = {
            member.node.output: _Place(tuple(group), begin)
            for group in groups
            for member, begin in zip(group, _begins(group), strict=True)
        }

    def rewritten(self, node: Node) -> Node | None:
        """The part of the joined product that this product was."""
        place = self.places.pop(node.output, None)
        if place is None:
            return None
        first = place.group[0].node.output
        if first not in self.whole:
            self.whole[first] = self.joined(place)
        rank = len(self.rewriter.shape(node.output))
        part = Begins((*(0,) * (rank - 1), place.begin), (1,) * rank)
        return Node(Kind.SLICE, (self.whole[first],), node.output, part)

    def measure(self) -> tuple[int, ...]:
        """Products that are still to be joined."""
        return (len(self.places),)

    def joined(self, place: _Place) -> TensorId:
        """The product of a group."""
        group, width, shape = place.group, place.width, self.rewriter.shape
        first = group[0].node
        inputs = [
            first.inputs[0],
            self.constant((member.weight for member in group), shape(first.inputs[1]), width),
        ]
        if any(member.bias for member in group):
            parts = (member.bias or Part(None, (), member.weight.width) for member in group)
            inputs.append(self.constant(parts, (1,) * len(shape(first.output)), width))
        return self.rewriter.add(Kind.MATMUL, inputs, (*shape(first.output)[:-1], width))

    def constant(self, parts: Iterable[Part], like: Sequence[Dim], width: int) -> TensorId:
        """The tensor of parts side by side; the same parts are joined once."""
        key = tuple(parts)
        if key not in self.names:
            name = f"joined_{len(self.names)}"
            shape = (*_numbers(like)[:-1], width)
            self.names[key] = self.graph.tensor(shape, source=name)
            self.graph.joined[name] = Joined(key, shape)
        return self.names[key]


class _Readers:
    """Which tensors leave the region, or are copied by those who read them; through views."""

    def __init__(self, nodes: Sequence[Node], outputs: Iterable[TensorId]) -> None:
        self.leaving = set(outputs)
        self.copied: set[TensorId] = set()
        for node in reversed(nodes):
            self._look_at(node)

    def _look_at(self, node: Node) -> None:
        if node.kind in VIEWS:
            self.leaving.update(node.inputs if node.output in self.leaving else ())
            self.copied.update(node.inputs if node.output in self.copied else ())
        elif node.kind not in READERS:
            self.copied.update(node.operands)


class _Constants:
    """Which tensors are constants, through which views, and how often each constant is read."""

    def __init__(self, rewriter: Rewriter) -> None:
        graph = rewriter.graph
        self.parts = {
            index: Part(tensor.source, (), tensor.shape[-1])
            for index, tensor in enumerate(graph.tensors)
            if isinstance(tensor.source, str) and all(isinstance(extent, int) for extent in tensor.shape)
        }
        self.reads = Counter(self.parts[tensor].name for tensor in graph.outputs if tensor in self.parts)
        for node in graph.nodes:
            self._look_at(node, _numbers(graph.shape(node.output)), rewriter.is_result(node.output))

    def _look_at(self, node: Node, shape: tuple[int, ...], leaves: bool) -> None:
        part = self.parts.get(node.inputs[0]) if node.kind in VIEWS else None
        if part is None:
            self.reads.update(self.parts[each].name for each in node.operands if each in self.parts)
            return
        axes = node.parameters.axes if isinstance(node.parameters, Permutation) else None
        self.parts[node.output] = Part(part.name, (*part.views, View(axes, shape)), shape[-1])
        self.reads[part.name] += leaves


class _Groups:
    """Which products are joined."""

    def __init__(self, rewriter: Rewriter, readers: _Readers, constants: _Constants) -> None:
        self.graph = rewriter.graph
        self.readers = readers
        self.constants = constants
        self.roots: dict[TensorId, TensorId] = {}  # what a tensor is a reshaped view of
        for node in self.graph.nodes:
            if node.kind is Kind.RESHAPE:
                self.roots[node.output] = self.roots.get(node.inputs[0], node.inputs[0])

    def chosen(self) -> list[list[_Member]]:
        """The groups all of whose weights serve joined products alone."""
        groups = self.alike()
        same = Counter(tuple(member.weight for member in group) for group in groups)
        return [
            group
            for group in groups
            if all(
                self.constants.reads[member.weight.name] == same[tuple(each.weight for each in group)]
                for member in group
            )
        ]

    def alike(self) -> list[list[_Member]]:
        """The products with one left operand, in order, where there are several."""
        members = [member for node in self.graph.nodes if (member := self.member(node)) is not None]
        alone = Counter(member.weight.name for member in members)
        by_operand: dict[TensorId, list[list[_Member]]] = {}
        for member in members:
            if self.constants.reads[member.weight.name] != alone[member.weight.name]:
                continue
            data = member.node.inputs[0]
            groups = by_operand.setdefault(self.roots.get(data, data), [])
            fitting = next((group for group in groups if self.fits(group[0], member)), None)
            if fitting is None:
                groups.append([member])
            else:
                fitting.append(member)
        found = (group for groups in by_operand.values() for group in groups)
        return [group for group in found if len(group) > 1 and _Place(tuple(group), 0).width <= WIDEST]

    def member(self, node: Node) -> _Member | None:
        is_plain = node.parameters == NO_PARAMETERS and not node.post_ops and node.quantized is None
        if node.kind is not Kind.MATMUL or not is_plain:
            return None
        left, right = node.inputs[:2]
        parts = self.constants.parts
        weight = parts.get(right)
        biases = [parts.get(tensor) for tensor in node.inputs[2:]]
        is_float = all(self.graph.dtype(each) is DataType.FLOAT32 for each in (*node.inputs, node.output))
        if weight is None or None in biases or not is_float or left in parts:
            return None
        rows = self.graph.shape(right)[-2]
        is_deep = isinstance(rows, int) and rows >= DEEP
        if node.output in self.readers.leaving or (node.output in self.readers.copied and not is_deep):
            return None
        return _Member(node, weight, biases[0] if biases else None)

    def fits(self, first: _Member, other: _Member) -> bool:
        (left, right), (data, weight) = first.node.inputs[:2], other.node.inputs[:2]
        shape = self.graph.shape
        return same_shape(shape(left), shape(data)) and same_shape(shape(right)[:-1], shape(weight)[:-1])


def _begins(group: Sequence[_Member]) -> list[int]:
    return list(accumulate((member.weight.width for member in group[:-1]), initial=0))


def _numbers(shape: Iterable[object]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))
