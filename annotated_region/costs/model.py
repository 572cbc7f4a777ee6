"""The cost model protocols; all costs are in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from annotated_region.cost_units import CostUnit
    from annotated_region.dataflow.graph import DataflowGraph
    from annotated_region.ids import NodeId
    from annotated_region.regions.node_region import NodeRegion

__all__ = [
    "HOST",
    "ConfirmingCostModel",
    "CostModel",
    "MeasuringCostModel",
    "PlacementTimes",
    "SegmentTimingCostModel",
]

HOST: Final = "host"
"""The name of the host (TVM itself) in cost models."""


class CostModel(Protocol):
    """Launch, compute and transfer times in seconds. The host is the target "host", and has no launch."""

    def launch(self, target: str) -> float:
        """The time to enter a region of `target`."""

    def compute(self, target: str, unit: CostUnit) -> float:
        """The time to run `unit` on `target`; infinity if it cannot."""

    def transfer(self, size: int, source: str, destination: str) -> float:
        """The time to move `size` bytes, also between two regions of one target."""


@runtime_checkable
class MeasuringCostModel(CostModel, Protocol):
    """A cost model that gets all its `compute` queries in advance, to measure them in one batch."""

    def prepare(self, questions: Sequence[tuple[str, CostUnit]]) -> None:
        """Prepare for ``compute(target, unit)`` of each pair."""


@dataclass(frozen=True, slots=True)
class PlacementTimes:
    """The measured times of some placements.

    Attributes
    ----------
    taken
        The index of the placement to use.
    seconds
        The time of each; infinity for a placement that was rejected or did not have to run.
    """

    taken: int
    seconds: tuple[float, ...]


@runtime_checkable
class ConfirmingCostModel(CostModel, Protocol):
    """A cost model with error bounds that can also run whole placements."""

    def doubt(self, target: str, unit: CostUnit) -> float:
        """The possible error of `compute`, in seconds."""

    def first_of_fastest(
        self, graph: DataflowGraph, placements: Sequence[Sequence[NodeRegion]]
    ) -> PlacementTimes:
        """The first of some placements of a function, or a later one that is measurably faster.

        The function has no annotations. Nodes in no region run on the host. A placement with a region that
        its target rejects is used only if there is no other.
        """


@runtime_checkable
class SegmentTimingCostModel(ConfirmingCostModel, Protocol):
    """A cost model that can also run parts of placements."""

    def segment_seconds(
        self, graph: DataflowGraph, segments: Sequence[tuple[Sequence[NodeId], Sequence[NodeRegion]]]
    ) -> Sequence[float]:
        """The seconds of each segment: some nodes of a function, and regions of them; the other nodes run on
        the host. Infinity where a target rejects a region.
        """
