"""UnitCost: counts ops, launches and transfers, for use without device descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotated_region.checked import checked_class
from annotated_region.costs.model import HOST

if TYPE_CHECKING:
    from annotated_region.cost_units import CostUnit

__all__ = ["UnitCost"]


@checked_class
@dataclass(frozen=True, slots=True)
class UnitCost:
    """A constant cost for each op, launch and transfer, in arbitrary units.

    With the defaults, offloading a single op pays only if it saves more than its transfers cost.

    Parameters
    ----------
    op
        The cost of a unit on a target, op or composite.
    host_op
        The cost of an op on the host.
    region
        The cost of entering a region.
    crossing
        The cost of a transfer, whatever its size.
    """

    op: float = 1.0
    host_op: float = 4.0
    region: float = 1.0
    crossing: float = 1.0

    def launch(self, _target: str) -> float:
        """See `CostModel`."""
        return self.region

    def compute(self, target: str, unit: CostUnit) -> float:
        """See `CostModel`."""
        return self.host_op * max(1, len(unit.ops)) if target == HOST else self.op

    def transfer(self, _size: int, _source: str, _destination: str) -> float:
        """See `CostModel`."""
        return self.crossing
