"""The unit that cost models price: an op or a composite, and the function that computes exactly it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.functions.external import external_function
from annotated_region.ids import NodeId
from annotated_region.targets.composite_attributes import composite_attributes
from annotated_region.targets.op_view import OpView

__all__ = ["CostUnit"]


@dataclass(frozen=True, slots=True)
class CostUnit:
    """What a target runs as one: an op, or the ops of a composite.

    Attributes
    ----------
    ops
        The ops, in program order; empty for a call that is not an op, such as a call to a function.
    composite
        The name of the pattern, or None for a single op.
    """

    ops: tuple[OpView, ...]
    composite: str | None = None
    _graph: DataflowGraph | None = field(default=None, repr=False, compare=False)
    _nodes: tuple[NodeId, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(graph: DataflowGraph, nodes: tuple[NodeId, ...], composite: str | None = None) -> CostUnit:
        """The unit made of some nodes of a function."""
        views = (OpView.of(graph.nodes[node].value) for node in nodes if _is_call(graph, node))
        return CostUnit(tuple(view for view in views if view is not None), composite, graph, nodes)

    def function(self, attributes: dict[str, str], bind_constants: bool = True) -> relax.Function | None:
        """A Relax function that computes exactly this unit; None if none of its results is used."""
        if self._graph is None:
            return None
        composites = [(self.composite, self._nodes)] if self.composite else []
        further = composite_attributes(self._graph, attributes.get("Codegen", ""))
        external = external_function(
            self._graph, self._nodes, composites, attributes, bind_constants, further=further
        )
        return None if external is None else external.func


def _is_call(graph: DataflowGraph, node: NodeId) -> bool:
    return isinstance(graph.nodes[node].value, relax.Call)
