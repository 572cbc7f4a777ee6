"""Recognizes rotary positions in their parts, which read and write each row six times.

::

    x ----------------------------> * cosines ------------+
    |                                                     + --> result    =>    rotation(x, cosines, sines)
    +--> slice, negative --> concat --> * sines ----------+
    +--> slice ----------------^

The last axis is halved: each number of the first half and the one at the same place of the second half are a
point in a plane, which is turned by an angle (Su et al., RoFormer, 2021). `rotate_half` of transformers has
this form. The parts have no other readers, and cosines and sines may be repeated along any axis.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from annotated_region.backends.dnnl.graph import DataType, Kind, Node, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Begins, Concat, linear
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite

__all__ = ["RecognizeRotation"]


class RecognizeRotation(Rewrite):
    """Replace a sum and the nodes that compute its terms by one node; the node count decreases."""

    def rewritten(self, node: Node) -> Node | None:
        """The rotation."""
        if node.kind is not Kind.BINARY or node.algorithm != "binary_add" or node.post_ops:
            return None
        for straight, across in (node.inputs, node.inputs[::-1]):
            found = self.operands(straight, across)
            if found is not None and same_shape(self.graph.shape(found[0]), self.graph.shape(node.output)):
                return replace(node, kind=Kind.ROTATION, inputs=found, parameters=NO_PARAMETERS)
        return None

    def operands(self, straight: TensorId, across: TensorId) -> tuple[TensorId, TensorId, TensorId] | None:
        """The data, the cosines and the sines, where `straight` is the data times the cosines."""
        left, right = (self.rewriter.own(each, Kind.BINARY, "binary_mul") for each in (straight, across))
        if left is None or right is None or left.post_ops or right.post_ops:
            return None
        for (data, cosines), (crossed, sines) in product(_orders(left), _orders(right)):
            if self.graph.dtype(data) is DataType.FLOAT32 and self.is_crossed(crossed, data):
                return data, cosines, sines
        return None

    def is_crossed(self, tensor: TensorId, data: TensorId) -> bool:
        """Whether a tensor is the negated second half of each row of the data, and then the first half."""
        axis = len(self.graph.shape(data)) - 1
        concat = self.rewriter.own(tensor, Kind.CONCAT)
        if concat is None or concat.post_ops or concat.parameters != Concat(axis) or len(concat.inputs) != 2:
            return False
        negated = self.rewriter.own_linear(concat.inputs[0])
        if negated is None or negated[1] != linear(-1.0):
            return False
        width = self.graph.shape(data)[axis]
        return (
            isinstance(width, int)
            and self.is_half(negated[0].inputs[0], data, width // 2, width)
            and self.is_half(concat.inputs[1], data, 0, width)
        )

    def is_half(self, tensor: TensorId, data: TensorId, begin: int, width: int) -> bool:
        """Whether a tensor is half of each row of the data, from a number on."""
        node, axes = self.rewriter.own(tensor, Kind.SLICE), len(self.graph.shape(data))
        part = Begins((*[0] * (axes - 1), begin), (1,) * axes)
        half = (*self.graph.shape(data)[:-1], width // 2)
        return (
            node is not None
            and width % 2 == 0
            and node.inputs == (data,)
            and node.parameters == part
            and same_shape(self.graph.shape(tensor), half)
        )


def _orders(node: Node) -> tuple[tuple[TensorId, ...], tuple[TensorId, ...]]:
    return node.inputs, node.inputs[::-1]
