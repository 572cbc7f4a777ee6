"""Views sink below the arithmetic behind them, so that it stands next to the product that it follows.

::

    matmul --> reshape --> add(bias) --> gelu     =>     matmul --> add(bias) --> gelu --> reshape
    matmul --> permute --> add(residual)          =>     matmul --> add(permute(residual)) --> permute

A stack of rows times one matrix is one product of two axes, and the result gets the axes of the stack back;
a network whose channels stand last puts permutations between products and residuals. `fuse` would see
neither bias nor residual behind the view. The view of the other operand costs nothing, or cancels one that
is there already.

Notes
-----
O(nodes * views in a row); run it before `fuse`.
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Dim, Graph, Kind, Node, TensorId, same_dim, same_shape
from annotated_region.backends.dnnl.views import permuted_shape

__all__ = ["sink_views"]

ROOTS = (Kind.CONVOLUTION, Kind.DECONVOLUTION, Kind.MATMUL, Kind.BINARY, Kind.ELTWISE)
VIEWS = (Kind.RESHAPE, Kind.PERMUTE)
PASSED = (*VIEWS, Kind.QUANTIZE, Kind.DEQUANTIZE)
"""What may stand between a product and its view."""


def sink_views(graph: Graph) -> None:
    """Exchange views with the element-wise and binary nodes that read them, where only these do."""
    sinking = _Sinking(graph)
    for node in graph.nodes:
        sinking.place(node)
    graph.nodes = list(sinking.made.values())


def _is_elementwise(node: Node) -> bool:
    """Whether each element of the result comes from those at the same place, wherever that is."""
    is_uniform = node.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE) and len(node.inputs) == 1
    return is_uniform or (node.kind in (Kind.ELTWISE, Kind.BINARY) and not node.post_ops)


class _Sinking:
    """The nodes made so far, by result, in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = graph.use_counts()
        self.made: dict[TensorId, Node] = {}

    def place(self, node: Node) -> None:
        """Put a node behind those made so far, in front of the views that it reads."""
        views: list[Node] = []
        while (exchanged := self.exchanged(node)) is not None:
            node, view = exchanged
            views.append(view)
        self.made[node.output] = node
        for view in reversed(views):
            self.made[view.output] = view

    def exchanged(self, node: Node) -> tuple[Node, Node] | None:
        """The node in front of a view that it reads, and the view behind it; None if there is no view."""
        if not _is_elementwise(node):
            return None
        for position, operand in enumerate(node.inputs):
            view = self.view(operand)
            if view is None or not same_shape(self.graph.shape(operand), self.graph.shape(node.output)):
                continue
            inputs = [self.seen_from(view, other) for other in node.inputs]
            inputs[position] = view.inputs[0]
            if None in inputs:
                continue
            del self.made[operand]
            return self.before(view, node, [tensor for tensor in inputs if tensor is not None])
        return None

    def view(self, tensor: TensorId) -> Node | None:
        """The view of a product, or of what follows one, that makes `tensor` for a single reader."""
        view = self.made.get(tensor)
        if view is None or view.kind not in VIEWS or self.uses[tensor] != 1:
            return None
        root = view
        while root.kind in PASSED and self.uses[root.output] == 1 and root.inputs[0] in self.made:
            root = self.made[root.inputs[0]]
        return view if root.kind in ROOTS and self.uses[root.output] == 1 else None

    def before(self, view: Node, node: Node, inputs: list[TensorId]) -> tuple[Node, Node]:
        inner = self.graph.tensor(self.graph.shape(view.inputs[0]), dtype=self.graph.dtype(node.output))
        self.uses[inner] = 1
        moved = replace(node, inputs=tuple(inputs), output=inner)
        return moved, replace(view, inputs=(inner,), output=node.output)

    def seen_from(self, view: Node, other: TensorId) -> TensorId | None:
        """The other operand as it would be without the view; None if that is no view of it."""
        if other == view.output:
            return view.inputs[0]
        if view.kind is Kind.PERMUTE:
            return self.permuted(other, tuple(view.ints.index(axis) for axis in range(len(view.ints))))
        return self.reshaped(view, other)

    def permuted(self, tensor: TensorId, axes: tuple[int, ...]) -> TensorId:
        node = self.made.get(tensor)
        if node is not None and node.kind is Kind.PERMUTE:
            axes = tuple(node.ints[axis] for axis in axes)
            tensor = self.behind(node)
        if axes == tuple(range(len(axes))):
            return tensor
        return self.new(Kind.PERMUTE, tensor, permuted_shape(self.graph.shape(tensor), axes), axes)

    def reshaped(self, view: Node, other: TensorId) -> TensorId | None:
        before, after = self.graph.shape(view.inputs[0]), self.graph.shape(view.output)
        extents = self.graph.shape(other)
        if same_shape(extents, after):
            return self.new(Kind.RESHAPE, other, before)
        is_row = same_dim(before[-1], after[-1]) and all(extent == 1 for extent in extents[:-1])
        if not is_row or not (extents[-1] == 1 or same_dim(extents[-1], before[-1])):
            return None
        return self.new(Kind.RESHAPE, other, (*(1,) * (len(before) - 1), extents[-1]))

    def behind(self, view: Node) -> TensorId:
        """What a view shows, which gets the reader that the view loses."""
        self.uses[view.output] -= 1
        self.uses[view.inputs[0]] += 1
        return view.inputs[0]

    def new(
        self, kind: Kind, tensor: TensorId, shape: tuple[Dim, ...], axes: tuple[int, ...] = ()
    ) -> TensorId:
        """A view of `tensor`; of what that shows, if it is a reshape itself and so is the view."""
        node = self.made.get(tensor)
        if node is not None and node.kind is Kind.RESHAPE and kind is Kind.RESHAPE:
            tensor = self.behind(node)
            if same_shape(self.graph.shape(tensor), shape):
                return tensor
        output = self.graph.tensor(shape, dtype=self.graph.dtype(tensor))
        self.made[output] = Node(kind, (tensor,), output, ints=axes)
        self.uses[output] = 1
        return output
