"""Fused primitive functions of one module or of many: extracted, counted, and handed to TVM's tuner."""

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
