"""Fused primitive functions of one or several modules: extraction, counts, tuning tasks."""

from annotated_region.extraction.call_sites import CallSite
from annotated_region.extraction.fused_functions import extract_fused_functions
from annotated_region.extraction.hashed_functions import FusedFunction, extract_hashed_functions
from annotated_region.extraction.tuning_tasks import to_tuning_tasks

__all__ = [
    "CallSite",
    "FusedFunction",
    "extract_fused_functions",
    "extract_hashed_functions",
    "to_tuning_tasks",
]
