"""Measured costs: units are built and run on their targets, and their times stored."""

from annotated_region.measuring.measured import MeasuredCost

__all__ = ["MeasuredCost"]
