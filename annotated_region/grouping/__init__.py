"""Grouping of DAG vertices under a joint acyclicity condition: the graph engine under merge and resolve."""

from annotated_region.grouping.blocking import Blockers, blocker
from annotated_region.grouping.engine import group
from annotated_region.grouping.problem import ColourLimits, Grouping

__all__ = [
    "Blockers",
    "ColourLimits",
    "Grouping",
    "blocker",
    "group",
]
