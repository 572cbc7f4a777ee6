"""What a cost model is: three questions, all answered in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from annotated_region.cost_units import CostUnit
    from annotated_region.dataflow.graph import DataflowGraph
    from annotated_region.regions.node_region import NodeRegion

__all__ = ["HOST", "ConfirmingCostModel", "CostModel", "MeasuringCostModel", "PlacementTimes"]

HOST: Final = "host"
"""The name under which cost models know TVM itself."""


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


@dataclass(frozen=True, slots=True)
class PlacementTimes:
    """What came of running some placements.

    Attributes
    ----------
    taken
        The number of the placement to take.
    seconds
        What each takes; infinity stands for one that is refused, or that did not have to run.
    """

    taken: int
    seconds: tuple[float, ...]


@runtime_checkable
class ConfirmingCostModel(CostModel, Protocol):
    """A cost model that knows how sure it is, and can run placements as wholes."""

    def doubt(self, target: str, unit: CostUnit) -> float:
        """By how many seconds the answer of `compute` may be off."""

    def first_of_fastest(
        self, graph: DataflowGraph, placements: Sequence[Sequence[NodeRegion]]
    ) -> PlacementTimes:
        """The first of some placements of a function, or a later one that is surely faster.

        The function has no annotations. What no region holds runs on the host. A placement with a region that
        its target refuses is not taken if there is another.
        """
