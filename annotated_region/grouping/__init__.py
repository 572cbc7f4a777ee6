"""Grouping of DAG vertices under a joint acyclicity condition: the graph engine under merge and resolve."""

from annotated_region.grouping.blocking import Blockers, blocker
from annotated_region.grouping.dag import CycleError, Dag, contract
from annotated_region.grouping.engine import group
from annotated_region.grouping.ordering import order
from annotated_region.grouping.problem import ColourLimits, Grouping
from annotated_region.grouping.quotient import DynamicQuotient

__all__ = [
    "Blockers",
    "ColourLimits",
    "CycleError",
    "Dag",
    "DynamicQuotient",
    "Grouping",
    "blocker",
    "contract",
    "group",
    "order",
]
