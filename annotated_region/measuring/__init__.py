"""Measured costs: units are built and run on their targets, and their times are kept."""

from annotated_region.measuring.measured import MeasuredCost

__all__ = ["MeasuredCost"]
