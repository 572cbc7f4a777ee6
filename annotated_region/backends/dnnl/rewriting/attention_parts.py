"""Attention to concatenated keys and values: both parts are read in place.

::

    past keys, new keys --> concat --> views --> attention    =>    views of each part --> attention
"""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Kind, Node, TensorId, same_dim
from annotated_region.backends.dnnl.parameters import Attention, Causal, Concat, Permutation
from annotated_region.backends.dnnl.rewriting.rewriter import Rewrite
from annotated_region.backends.dnnl.views import NEW_AXIS, axes_kept, permute, reshape

__all__ = ["ReadKeysInParts"]

RANK = 4


class ReadKeysInParts(Rewrite):
    """One node that reads keys and values in two parts each.

    A concatenation with another reader, such as the caller, is still computed, and read.
    """

    def measure(self) -> tuple[int, ...]:
        """The number of attentions with undivided keys."""
        return (sum(node.kind is Kind.ATTENTION for node in self.rewriter.nodes()),)

    def rewritten(self, node: Node) -> Node | None:
        """The same attention with keys and values in parts."""
        given = node.parameters
        if node.kind is not Kind.ATTENTION or not isinstance(given, Attention):
            return None
        if given.causal is not Causal.NONE or given.guarded or len(self.graph.shape(node.output)) != RANK:
            return None
        queries, keys, values, *mask = node.inputs
        of_keys, of_values = self.parts(keys, RANK - 1), self.parts(values, RANK - 2)
        shape = self.graph.shape
        if not of_keys or not of_values or not same_dim(shape(queries)[0], shape(keys)[0]):
            return None
        if not all(same_dim(shape(k)[-1], shape(v)[-2]) for k, v in zip(of_keys, of_values, strict=True)):
            return None
        return replace(node, kind=Kind.PARTED_ATTENTION, inputs=(queries, *of_keys, *of_values, *mask))

    def parts(self, tensor: TensorId, axis: int) -> tuple[TensorId, ...]:
        """The two operands of a concatenation, with its view applied to each; empty if there is none."""
        node = self.rewriter.own(tensor)
        if node is None:
            return ()
        if node.kind is Kind.CONCAT and node.parameters == Concat(axis) and len(node.inputs) == 2:
            return () if node.post_ops else node.inputs
        if node.kind is Kind.PERMUTE and isinstance(node.parameters, Permutation):
            axes = node.parameters.axes
            inner = self.parts(node.inputs[0], axes[axis])
            return tuple(permute(self.graph, part, axes) for part in inner)
        return self.reshaped_parts(node, axis) if node.kind is Kind.RESHAPE else ()

    def reshaped_parts(self, node: Node, axis: int) -> tuple[TensorId, ...]:
        """The same for a reshape that only adds or removes axes of extent one."""
        after = self.graph.shape(node.output)
        axes = axes_kept(self.graph.shape(node.inputs[0]), after)
        inner = NEW_AXIS if axes is None else axes[axis]
        if inner == NEW_AXIS:
            return ()
        made = self.parts(node.inputs[0], inner)
        extents = (self.graph.shape(part)[inner] for part in made)
        return tuple(
            reshape(self.graph, part, (*after[:axis], extent, *after[axis + 1 :]))
            for part, extent in zip(made, extents, strict=True)
        )
