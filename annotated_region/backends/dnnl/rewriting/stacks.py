"""Stacks of matrices keep their axes: what exporters flatten for a product is multiplied as it was before.

::

    a: (b, h, m, k) --> (b * h, m, k) --+
                                        +--> matmul --> (b, h, m, n)     =>     matmul(a, c)
    c: (b, h, k, n) --> (b * h, k, n) --+

PyTorch's core operators know products of one stack only. With the flattening gone, batches and heads are seen
apart, and `attention` is found between them. An operand that was made flat is taken apart like the other one.
On the way reshapes in a row become one, or none.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import DataType, Dim, Kind, Node, TensorId, same_shape
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite
from annotated_region.backends.dnnl.views import reshape

__all__ = ["LiftStacks"]


class LiftStacks(Rewrite):
    """Multiply stacks of more than one axis where an operand, or both alike, were flattened."""

    def rewritten(self, node: Node) -> Node | TensorId | None:
        """Of a product the reshape behind the one of the stacks as they were; of a reshape the whole one."""
        if node.kind is Kind.MATMUL:
            return self.lifted(node)
        return self.joined(node) if node.kind is Kind.RESHAPE else None

    def measure(self) -> tuple[int, ...]:
        """Products of flat stacks; reshapes that stand in front of reshapes; nodes."""
        depths: dict[TensorId, int] = {}
        flat = nodes = 0
        for node in self.rewriter.nodes():
            nodes += 1
            flat += node.kind is Kind.MATMUL and len(self.graph.shape(node.output)) == 3
            if node.kind is Kind.RESHAPE:
                depths[node.output] = depths.get(node.inputs[0], 0) + 1
        return flat, sum(depths.values()), nodes

    def joined(self, view: Node) -> Node | TensorId | None:
        """One reshape of what comes before a reshape; nothing where this has the extents already."""
        source = self.before(view.inputs[0])
        if same_shape(self.graph.shape(source), self.graph.shape(view.output)):
            return source
        return None if source == view.inputs[0] else replace(view, inputs=(source,))

    def before(self, tensor: TensorId) -> TensorId:
        """What a tensor is a reshape of; itself if it is none."""
        node = self.rewriter.producer(tensor)
        return node.inputs[0] if node is not None and node.kind is Kind.RESHAPE else tensor

    def lifted(self, node: Node) -> Node | None:
        """The reshape behind the product of the stacks as they were."""
        is_plain = len(node.inputs) == 2 and self.graph.dtype(node.output) is DataType.FLOAT32
        if not is_plain or len(self.graph.shape(node.output)) != 3:
            return None
        shapes = [self.graph.shape(tensor) for tensor in node.inputs]
        found = [stack for tensor in node.inputs if (stack := self.stack(tensor)) is not None]
        if not found or not same_shape(shapes[0][:-2], shapes[1][:-2]):
            return None
        stacks = sorted(found, key=len)  # repeated heads have an axis more
        if any(len(stack) == len(stacks[0]) and not same_shape(stack, stacks[0]) for stack in stacks):
            return None
        operands = [self.apart(tensor, stacks[0]) for tensor in node.inputs]
        shape = (*stacks[0], *self.graph.shape(node.output)[-2:])
        product = self.graph.add(Kind.MATMUL, operands, shape, node.parameters)
        return Node(Kind.RESHAPE, (product,), node.output)

    def stack(self, tensor: TensorId) -> tuple[Dim, ...] | None:
        """The leading axes that became one; None if they did not, or anything else did."""
        flat, apart = self.graph.shape(tensor), self.graph.shape(self.before(tensor))
        is_flat = len(flat) == 3 and len(apart) > 3 and same_shape(flat[-2:], apart[-2:])
        return apart[:-2] if is_flat else None

    def apart(self, tensor: TensorId, stack: tuple[Dim, ...]) -> TensorId:
        """An operand before it was flattened; one that was made flat is taken apart."""
        was = self.stack(tensor)
        if was is not None and same_shape(was, stack):
            return self.before(tensor)
        return reshape(self.graph, self.before(tensor), (*stack, *self.graph.shape(tensor)[-2:]))
