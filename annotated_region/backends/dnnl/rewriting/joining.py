"""Joins products of one operand with several weights into one product with the weights concatenated.

::

    x --> matmul(W1) + b1 --> q                                    +--> slice --> q
    x --> matmul(W2) + b2 --> k     =>     x --> matmul(W) + b --->+--> slice --> k
    x --> matmul(W3) + b3 --> v                                    +--> slice --> v

The operand is read once, and threads synchronize once instead of three times. The slices are views, which
attention reads without a copy. Code generation concatenates the weights, so that neither the library nor a
process that runs it holds them twice.

Products are joined if they have constant weights and no post-op but a bias, unless a result leaves the region
(it would have to be copied), a weight is read elsewhere too (it would be stored twice), the joined product is
wider than `WIDEST` (each product has enough work for all threads), or a result has a reader that must copy it
and the product is less deep than `DEEP` (the copies cost more than joining saves).

It runs after `Fuse`, when the post-ops of each product are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from annotated_region.backends.dnnl.graph import (
    DataType,
    Dim,
    Graph,
    Joined,
    Kind,
    Node,
    Part,
    TensorId,
    same_shape,
)
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Begins, Permutation
from annotated_region.backends.dnnl.rewriting.rewriter import VIEWS, Rewrite, Rewriter

__all__ = ["JoinProducts"]

WIDEST = 4096
"""In columns: joining two products of 5632 columns each makes them three to five per cent slower."""

DEEP = 1024
"""In rows of the weight."""

READERS = (Kind.ATTENTION, Kind.PARTED_ATTENTION, Kind.MATMUL)
"""The kinds that read a slice of a larger tensor without a copy."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A candidate for joining: the node of the product, its weight and its bias."""

    node: Node
    weight: Part
    bias: Part | None


Group: TypeAlias = tuple[_Member, ...]
"""Products to be joined, in column order."""


class JoinProducts(Rewrite):
    """Join profitable groups of products; the joined constants are recorded in ``graph.joined``.

    The groups are chosen before the first step. The joined product takes the position of the first product of
    its group, and each product of the group becomes a slice of it.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        """Choose the groups."""
        super().__init__(rewriter)
        self.names: dict[tuple[Part, ...], TensorId] = {}
        self.whole: dict[Group, TensorId] = {}
        self.places = {  # for each product: its group, and its first column in the joined product
            member.node.output: (group, begin)
            for group in _Groups(self.graph).chosen()
            for member, begin in zip(group, _begins(group), strict=True)
        }

    def rewritten(self, node: Node) -> Node | None:
        """The slice of the joined product that replaces this product."""
        group, begin = self.places.pop(node.output, ((), 0))
        if not group:
            return None
        if group not in self.whole:
            self.whole[group] = self.joined(group)
        rank = len(self.graph.shape(node.output))
        part = Begins((*(0,) * (rank - 1), begin), (1,) * rank)
        return Node(Kind.SLICE, (self.whole[group],), node.output, part)

    def measure(self) -> tuple[int, ...]:
        """The number of products that remain to be joined."""
        return (len(self.places),)

    def joined(self, group: Group) -> TensorId:
        """The joined product of a group."""
        first, shape, width = group[0].node, self.graph.shape, _width(group)
        half = self.graph.tensors[first.inputs[1]].half
        weights = (member.weight for member in group)
        inputs = [first.inputs[0], self.constant(weights, shape(first.inputs[1]), width, half)]
        if any(member.bias for member in group):
            parts = (member.bias or Part(None, (), member.weight.width) for member in group)
            inputs.append(self.constant(parts, (1,) * len(shape(first.output)), width, half))
        return self.graph.add(Kind.MATMUL, inputs, (*shape(first.output)[:-1], width))

    def constant(
        self, parts: Iterable[Part], like: Sequence[Dim], width: int, half: DataType | None
    ) -> TensorId:
        """The concatenation of parts, stored in `half` if given; the same parts are joined only once."""
        key = tuple(parts)
        if key not in self.names:
            name = f"joined_{len(self.names)}"
            shape = (*_numbers(like)[:-1], width)
            self.names[key] = self.graph.tensor(shape, source=name, half=half)
            self.graph.joined[name] = Joined(key, shape)
        return self.names[key]


class _Groups:
    """Chooses the products to join."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.leaving, self.copied = _leaving_and_copied(graph)
        self.parts, self.reads = _constants(graph)
        self.roots: dict[TensorId, TensorId] = {}  # the tensor of which another is a reshaped view
        for node in graph.nodes:
            if node.kind is Kind.RESHAPE:
                self.roots[node.output] = self.roots.get(node.inputs[0], node.inputs[0])

    def chosen(self) -> list[Group]:
        """The groups whose weights are read by joined products only."""
        groups = self.alike()
        same = Counter(_weights(group) for group in groups)
        return [
            group
            for group in groups
            if all(self.reads[weight.name] == same[_weights(group)] for weight in _weights(group))
        ]

    def alike(self) -> list[Group]:
        """The products with a common left operand, in order, if there are several."""
        members = [member for node in self.graph.nodes if (member := self.member(node)) is not None]
        alone = Counter(member.weight.name for member in members)
        by_operand: dict[TensorId, list[list[_Member]]] = {}
        for member in members:
            if self.reads[member.weight.name] != alone[member.weight.name]:
                continue
            data = member.node.inputs[0]
            groups = by_operand.setdefault(self.roots.get(data, data), [])
            fitting = next((group for group in groups if self.fits(group[0], member)), None)
            if fitting is None:
                groups.append([member])
            else:
                fitting.append(member)
        found = (tuple(group) for groups in by_operand.values() for group in groups)
        return [group for group in found if len(group) > 1 and _width(group) <= WIDEST]

    def member(self, node: Node) -> _Member | None:
        is_plain = node.parameters == NO_PARAMETERS and not node.post_ops and node.quantized is None
        if node.kind is not Kind.MATMUL or not is_plain:
            return None
        left, right, *bias = node.inputs
        weight, biases = self.parts.get(right), [self.parts.get(tensor) for tensor in bias]
        is_float = all(self.graph.dtype(each) is DataType.FLOAT32 for each in (*node.inputs, node.output))
        if weight is None or None in biases or not is_float or left in self.parts:
            return None
        if bias and self.graph.tensors[bias[0]].half is not self.graph.tensors[right].half:
            return None
        rows = self.graph.shape(right)[-2]
        is_deep = isinstance(rows, int) and rows >= DEEP
        if node.output in self.leaving or (node.output in self.copied and not is_deep):
            return None
        return _Member(node, weight, biases[0] if biases else None)

    def fits(self, first: _Member, other: _Member) -> bool:
        (left, right), (data, weight) = first.node.inputs[:2], other.node.inputs[:2]
        shape, tensors = self.graph.shape, self.graph.tensors
        if tensors[right].half is not tensors[weight].half:
            return False
        return same_shape(shape(left), shape(data)) and same_shape(shape(right)[:-1], shape(weight)[:-1])


def _leaving_and_copied(graph: Graph) -> tuple[set[TensorId], set[TensorId]]:
    """The tensors that leave the region, and those with a reader that copies them; both through views."""
    leaving, copied = set(graph.outputs), set[TensorId]()
    for node in reversed(graph.nodes):
        if node.kind not in VIEWS:
            copied.update(() if node.kind in READERS else node.operands)
            continue
        for found in (leaving, copied):
            found.update(node.inputs if node.output in found else ())
    return leaving, copied


def _constants(graph: Graph) -> tuple[dict[TensorId, Part], Counter[str | None]]:
    """The tensors that are constants, through views, and the number of reads of each constant."""
    parts = {
        index: Part(tensor.source, (), width)
        for index, tensor in enumerate(graph.tensors)
        if isinstance(tensor.source, str) and all(isinstance(extent, int) for extent in tensor.shape)
        for width in tensor.shape[-1:]
        if isinstance(width, int)
    }
    reads = Counter(parts[tensor].name for tensor in graph.outputs if tensor in parts)
    for node in graph.nodes:
        part, extents = parts.get(node.inputs[0]) if node.kind in VIEWS else None, graph.shape(node.output)
        shape = _numbers(extents)
        if part is None or not shape or len(shape) < len(extents):
            reads.update(parts[each].name for each in node.operands if each in parts)
            continue
        view = node.parameters if isinstance(node.parameters, Permutation) else shape
        parts[node.output] = Part(part.name, (*part.views, view), shape[-1])
        reads[part.name] += node.output in graph.outputs
    return parts, reads


def _weights(group: Group) -> tuple[Part, ...]:
    return tuple(member.weight for member in group)


def _width(group: Group) -> int:
    return sum(weight.width for weight in _weights(group))


def _begins(group: Group) -> list[int]:
    return list(accumulate((weight.width for weight in _weights(group)[:-1]), initial=0))


def _numbers(shape: Iterable[object]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if isinstance(extent, int))
