"""Layout assignment for a graph: the planning engine behind ``PlanLayout`` and ``TransformLayout``."""

from annotated_region.layout_plan.module import ModulePlan, plan_module
from annotated_region.layout_plan.options import Demand, Demands
from annotated_region.layout_plan.plan import BlockPlan, Cost, best_plan, following_plan
from annotated_region.layout_plan.transposes import transposes_of

__all__ = [
    "BlockPlan",
    "Cost",
    "Demand",
    "Demands",
    "ModulePlan",
    "best_plan",
    "following_plan",
    "plan_module",
    "transposes_of",
]
