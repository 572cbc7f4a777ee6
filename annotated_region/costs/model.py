"""What a cost model is: three questions, all answered in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from annotated_region.cost_units import CostUnit
    from annotated_region.dataflow.graph import DataflowGraph
    from annotated_region.regions.node_region import NodeRegion

__all__ = ["HOST", "ConfirmingCostModel", "CostModel", "MeasuringCostModel"]

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


@runtime_checkable
class ConfirmingCostModel(CostModel, Protocol):
    """A cost model that can also tell what a whole region takes, entering and leaving included."""

    def time_regions(self, graph: DataflowGraph, members: Sequence[NodeRegion]) -> list[float]:
        """Seconds of each of some regions of a function without annotations, to be compared with one another.

        Infinity stands for a region that its target refuses.
        """
