"""What a cost model is: three questions, all answered in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from tvm import relax

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.functions.external import external_function
from annotated_region.ids import NodeId
from annotated_region.regions.node_region import NodeRegion
from annotated_region.targets.op_view import OpView

__all__ = ["HOST", "ConfirmingCostModel", "CostModel", "CostUnit", "MeasuringCostModel"]

HOST: Final = "host"
"""The name under which cost models know TVM itself."""


@dataclass(frozen=True, slots=True)
class CostUnit:
    """What a target would run as one: an op, or the ops of a composite.

    Attributes
    ----------
    ops
        The ops, in program order; empty for a call that is no op (a call to a function).
    composite
        The name of the pattern, or None for a single op.
    """

    ops: tuple[OpView, ...]
    composite: str | None = None
    _graph: DataflowGraph | None = field(default=None, repr=False, compare=False)
    _nodes: tuple[NodeId, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(graph: DataflowGraph, nodes: tuple[NodeId, ...], composite: str | None = None) -> CostUnit:
        """The unit of some nodes of a function."""
        views = (OpView.of(graph.nodes[node].value) for node in nodes if _is_call(graph, node))
        return CostUnit(tuple(view for view in views if view is not None), composite, graph, nodes)

    def function(self, attributes: dict[str, str], bind_constants: bool = True) -> relax.Function | None:
        """A Relax function that computes just this unit; None if its results are not used."""
        if self._graph is None:
            return None
        composites = [(self.composite, self._nodes)] if self.composite else []
        external = external_function(self._graph, self._nodes, composites, attributes, bind_constants)
        return None if external is None else external.func


def _is_call(graph: DataflowGraph, node: NodeId) -> bool:
    return isinstance(graph.nodes[node].value, relax.Call)


class CostModel(Protocol):
    """Three questions, answered in seconds. The host is the target "host", and has no launch."""

    def launch(self, target: str) -> float:
        """What entering a region of `target` costs."""

    def compute(self, target: str, unit: CostUnit) -> float:
        """What running `unit` on `target` costs; infinity if it cannot."""

    def transfer(self, size: int, source: str, destination: str) -> float:
        """What moving `size` bytes costs, between two regions of one target too."""


class MeasuringCostModel(CostModel, Protocol):
    """A cost model that would rather hear all its questions first, to answer them together."""

    def prepare(self, questions: Sequence[tuple[str, CostUnit]]) -> None:
        """Get ready for ``compute(target, unit)`` of each pair."""


@runtime_checkable
class ConfirmingCostModel(CostModel, Protocol):
    """A cost model that can also tell what a whole region takes, entering and leaving included."""

    def time_regions(self, graph: DataflowGraph, members: Sequence[NodeRegion]) -> list[float]:
        """Seconds of each of some regions of a function without annotations, to be compared with one another.

        Infinity stands for a region that its target refuses.
        """
