"""Sinks views below the arithmetic that follows them, which makes the arithmetic adjacent to its product.

::

    matmul --> reshape --> add(bias) --> gelu     =>     matmul --> add(bias) --> gelu --> reshape
    matmul --> permute --> add(residual)          =>     matmul --> add(permute(residual)) --> permute

A stack of rows times one matrix is a product of matrices, whose result is reshaped back to the axes of the
stack; a channels-last network has permutations between products and residuals. Behind such a view, `Fuse`
would find neither bias nor residual. The inverse view of the other operand is free, or cancels an existing
one.

A view created for the other operand is pinned. Otherwise two operands could pass a view back and forth
forever::

    permute(relu(x)) + relu(z)  =>  permute(relu(x) + permute(relu(z)))  =>  relu(x') + relu(z') ...
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Dim, Kind, Node, TensorId, same_dim, same_shape
from annotated_region.backends.dnnl.parameters import Permutation, Scale
from annotated_region.backends.dnnl.rewriting.rewriter import LINKS, PRODUCTS, VIEWS, Rewrite, Rewriter
from annotated_region.backends.dnnl.views import permute

__all__ = ["SinkViews"]

ROOTS = (*PRODUCTS, *LINKS)
PASSED = (*VIEWS, Kind.QUANTIZE, Kind.DEQUANTIZE)
"""The kinds that may occur between a product and its view."""


class SinkViews(Rewrite):
    """Exchange a view with the element-wise or binary node that is its only reader."""

    def __init__(self, rewriter: Rewriter) -> None:
        """Start without pinned views."""
        super().__init__(rewriter)
        self.pinned: set[TensorId] = set()

    def rewritten(self, node: Node) -> Node | None:
        """The view, now after the node, which is emitted before it."""
        if not _is_elementwise(node):
            return None
        for position, operand in enumerate(node.inputs):
            view = self.view(operand)
            if view is None or not same_shape(self.shape(operand), self.shape(node.output)):
                continue
            others = [self.seen_from(view, other) for other in node.inputs]
            others[position] = view.inputs[0]
            inputs = [tensor for tensor in others if tensor is not None]
            if len(inputs) == len(others):
                return self.behind(view, node, inputs)
            self.graph.nodes.clear()
        return None

    def measure(self) -> tuple[int, ...]:
        """The number of paths from a view that may sink to a node that it may pass."""
        total = 0
        above: dict[TensorId, int] = {}
        for node in self.rewriter.nodes():
            paths = sum(above.get(tensor, 0) for tensor in node.inputs)
            total += paths if _is_elementwise(node) else 0
            may_sink = node.kind in VIEWS and node.output not in self.pinned
            above[node.output] = paths + may_sink
        return (total,)

    def shape(self, tensor: TensorId) -> tuple[Dim, ...]:
        return self.graph.shape(tensor)

    def view(self, tensor: TensorId) -> Node | None:
        """The view that computes `tensor`, if it follows a product or its chain and has a single reader."""
        view = self.rewriter.own(tensor)
        if view is None or view.kind not in VIEWS or tensor in self.pinned:
            return None
        root = view
        while root.kind in PASSED:
            before = self.rewriter.own(root.inputs[0])
            if before is None:
                return None
            root = before
        return view if root.kind in ROOTS else None

    def behind(self, view: Node, node: Node, inputs: list[TensorId]) -> Node:
        dtype = self.graph.dtype(node.output)
        shape = self.shape(view.inputs[0])
        inner = self.graph.add(node.kind, inputs, shape, node.parameters, dtype=dtype)
        return replace(view, inputs=(inner,), output=node.output)

    def seen_from(self, view: Node, other: TensorId) -> TensorId | None:
        """The other operand under the inverse view; None if no view computes that."""
        if other == view.output:
            return view.inputs[0]
        if isinstance(view.parameters, Permutation):
            return self.permuted(other, view.parameters.inverse)
        return self.reshaped(view, other)

    def permuted(self, tensor: TensorId, axes: tuple[int, ...]) -> TensorId:
        node = self.rewriter.producer(tensor)
        if node is not None and isinstance(node.parameters, Permutation):
            axes = tuple(node.parameters.axes[axis] for axis in axes)
            tensor = node.inputs[0]
        return self.pin(tensor, permute(self.graph, tensor, axes))

    def reshaped(self, view: Node, other: TensorId) -> TensorId | None:
        before, after = self.shape(view.inputs[0]), self.shape(view.output)
        extents = self.shape(other)
        if same_shape(extents, after):
            return self.with_extents(other, before)
        is_row = same_dim(before[-1], after[-1]) and all(extent == 1 for extent in extents[:-1])
        if not is_row or not (extents[-1] == 1 or same_dim(extents[-1], before[-1])):
            return None
        return self.with_extents(other, (*(1,) * (len(before) - 1), extents[-1]))

    def with_extents(self, tensor: TensorId, shape: tuple[Dim, ...]) -> TensorId:
        """A reshape of `tensor`, or of its source if it is itself a reshape."""
        node = self.rewriter.producer(tensor)
        if node is not None and node.kind is Kind.RESHAPE:
            tensor = node.inputs[0]
        if same_shape(self.shape(tensor), shape):
            return tensor
        return self.pin(tensor, self.graph.add(Kind.RESHAPE, (tensor,), shape))

    def pin(self, tensor: TensorId, view: TensorId) -> TensorId:
        """Pin a view that was created; does nothing if it is `tensor` itself."""
        if view != tensor:
            self.pinned.add(view)
        return view


def _is_elementwise(node: Node) -> bool:
    """Whether each element of the result depends only on elements at the same index, for any layout."""
    if node.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE):
        return isinstance(node.parameters, Scale)
    return node.kind in LINKS and not node.post_ops
