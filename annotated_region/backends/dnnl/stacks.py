"""Stacks of matrices keep their axes: what exporters flatten for a product is multiplied as it was before.

::

    a: (b, h, m, k) --> (b * h, m, k) --+
                                        +--> matmul --> (b, h, m, n)     =>     matmul(a, c)
    c: (b, h, k, n) --> (b * h, k, n) --+

PyTorch's core operators know products of one stack only. With the flattening gone, batches and heads are seen
apart, and `recognize` finds attention between them. An operand that was made flat is taken apart like the
other one. On the way reshapes in a row become one, or none.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, Kind, Node, TensorId, same_shape

__all__ = ["lift_stacks"]


def lift_stacks(graph: Graph) -> None:
    """Multiply stacks of more than one axis where an operand, or both alike, were flattened; O(nodes)."""
    lifting = _Lifting(graph)
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        lifting.place(node)
    graph.nodes = list(lifting.made.values())
    graph.remove_dead_nodes()


class _Lifting:
    """The nodes made so far, by result, in order; and which tensor stands for one that is no longer made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made: dict[TensorId, Node] = {}
        self.same: dict[TensorId, TensorId] = {}

    def place(self, node: Node) -> None:
        """Put a node, or what is made of it, behind those made so far."""
        node = replace(node, inputs=tuple(self.same.get(tensor, tensor) for tensor in node.inputs))
        if node.kind is Kind.MATMUL:
            node = self.lifted(node)
        if node.kind is Kind.RESHAPE:
            node = replace(node, inputs=(self.before(node.inputs[0]),))
            if self.is_identity(node):
                self.same[node.output] = node.inputs[0]
                return
        self.made[node.output] = node

    def before(self, tensor: TensorId) -> TensorId:
        """What a tensor is a reshape of; itself if it is none."""
        node = self.made.get(tensor)
        return node.inputs[0] if node is not None and node.kind is Kind.RESHAPE else tensor

    def is_identity(self, view: Node) -> bool:
        (source,) = view.inputs
        same = same_shape(self.graph.shape(source), self.graph.shape(view.output))
        return same and view.output not in self.graph.outputs

    def lifted(self, node: Node) -> Node:
        """The reshape behind the product of the stacks as they were; the node itself if these differ."""
        if len(node.inputs) != 2 or self.graph.dtype(node.output) is not DataType.FLOAT32:
            return node
        shapes = [self.graph.shape(tensor) for tensor in node.inputs]
        found = [stack for tensor in node.inputs if (stack := self.stack(tensor)) is not None]
        if not found or not same_shape(shapes[0][:-2], shapes[1][:-2]):
            return node
        stacks = sorted(found, key=len)  # repeated heads have an axis more
        if any(len(stack) == len(stacks[0]) and not same_shape(stack, stacks[0]) for stack in stacks):
            return node
        operands = tuple(self.apart(tensor, stacks[0]) for tensor in node.inputs)
        product = self.graph.tensor((*stacks[0], *self.graph.shape(node.output)[-2:]))
        self.made[product] = replace(node, inputs=operands, output=product)
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
        view = self.graph.tensor((*stack, *self.graph.shape(tensor)[-2:]))
        self.made[view] = Node(Kind.RESHAPE, (self.before(tensor),), view)
        return view
