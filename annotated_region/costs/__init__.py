"""Cost models of placements, for `LeastCost`."""

from annotated_region.costs.model import HOST, CostModel
from annotated_region.costs.roofline import Device, RooflineCost
from annotated_region.costs.unit import UnitCost

__all__ = ["HOST", "CostModel", "Device", "RooflineCost", "UnitCost"]
