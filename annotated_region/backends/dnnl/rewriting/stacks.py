"""Restores the axes of stacks of matrices that exporters flatten for a product.

::

    a: (b, h, m, k) --> (b * h, m, k) --+
                                        +--> matmul --> (b, h, m, n)     =>     matmul(a, c)
    c: (b, h, k, n) --> (b * h, k, n) --+

PyTorch's core operators have only products with a single stack axis. Without the flattening, batches and
heads are separate axes, which `RecognizeAttention` needs. An operand that is computed flat is reshaped like
the other one. Consecutive reshapes are merged or removed.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import DataType, Dim, Kind, Node, TensorId, same_shape
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite
from annotated_region.backends.dnnl.views import reshape

__all__ = ["LiftStacks"]


class LiftStacks(Rewrite):
    """Multiply stacks with several axes directly if one operand, or both in the same way, were flattened."""

    def rewritten(self, node: Node) -> Node | TensorId | None:
        """The reshape after the product of the original stacks; for a reshape, the merged reshape."""
        if node.kind is Kind.MATMUL:
            return self.lifted(node)
        return self.joined(node) if node.kind is Kind.RESHAPE else None

    def measure(self) -> tuple[int, ...]:
        """The numbers of products of flat stacks, of reshapes before reshapes, and of nodes."""
        depths: dict[TensorId, int] = {}
        flat = nodes = 0
        for node in self.rewriter.nodes():
            nodes += 1
            flat += node.kind is Kind.MATMUL and len(self.graph.shape(node.output)) == 3
            if node.kind is Kind.RESHAPE:
                depths[node.output] = depths.get(node.inputs[0], 0) + 1
        return flat, sum(depths.values()), nodes

    def joined(self, view: Node) -> Node | TensorId | None:
        """Consecutive reshapes as one; the source itself if it already has the shape."""
        source = self.before(view.inputs[0])
        if same_shape(self.graph.shape(source), self.graph.shape(view.output)):
            return source
        return None if source == view.inputs[0] else replace(view, inputs=(source,))

    def before(self, tensor: TensorId) -> TensorId:
        """The source of a reshape; the tensor itself if it is not one."""
        node = self.rewriter.producer(tensor)
        return node.inputs[0] if node is not None and node.kind is Kind.RESHAPE else tensor

    def lifted(self, node: Node) -> Node | None:
        """The reshape after the product of the original stacks."""
        is_plain = len(node.inputs) == 2 and self.graph.dtype(node.output) is DataType.FLOAT32
        if not is_plain or len(self.graph.shape(node.output)) != 3:
            return None
        shapes = [self.graph.shape(tensor) for tensor in node.inputs]
        found = [stack for tensor in node.inputs if (stack := self.stack(tensor)) is not None]
        if not found or not same_shape(shapes[0][:-2], shapes[1][:-2]):
            return None
        stacks = sorted(found, key=len)  # broadcast heads have one more axis
        if any(len(stack) == len(stacks[0]) and not same_shape(stack, stacks[0]) for stack in stacks):
            return None
        operands = [self.apart(tensor, stacks[0]) for tensor in node.inputs]
        shape = (*stacks[0], *self.graph.shape(node.output)[-2:])
        product = self.graph.add(Kind.MATMUL, operands, shape, node.parameters)
        return Node(Kind.RESHAPE, (product,), node.output)

    def stack(self, tensor: TensorId) -> tuple[Dim, ...] | None:
        """The leading axes that were flattened into one; None if none were, or others were too."""
        flat, apart = self.graph.shape(tensor), self.graph.shape(self.before(tensor))
        is_flat = len(flat) == 3 and len(apart) > 3 and same_shape(flat[-2:], apart[-2:])
        return apart[:-2] if is_flat else None

    def apart(self, tensor: TensorId, stack: tuple[Dim, ...]) -> TensorId:
        """An operand before flattening; one that is computed flat is reshaped to the stack."""
        was = self.stack(tensor)
        if was is not None and same_shape(was, stack):
            return self.before(tensor)
        return reshape(self.graph, self.before(tensor), (*stack, *self.graph.shape(tensor)[-2:]))
