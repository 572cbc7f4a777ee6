"""UnitCost: counts, where nothing is known of devices."""

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
    """Every op, launch and crossing value counts the same, in made-up seconds.

    With the defaults an op is worth offloading alone only if it saves more than its crossings cost.

    Parameters
    ----------
    op
        What a unit costs on a target, be it an op or a composite.
    host_op
        What an op costs on the host.
    region
        What entering a region costs.
    crossing
        What a value costs that crosses, whatever its size.
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
