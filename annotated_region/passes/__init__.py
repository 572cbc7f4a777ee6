"""The passes, each an IRModule -> IRModule transformation in a separate file."""

from annotated_region.passes.annotate_target import AnnotateTarget
from annotated_region.passes.append_in_place import AppendInPlace
from annotated_region.passes.fuse_tir_with_op_info import FuseTIRWithOpInfo
from annotated_region.passes.inline_partitions import InlinePartitions
from annotated_region.passes.legalize_with_op_info import LegalizeWithOpInfo
from annotated_region.passes.merge_compiler_regions import MergeCompilerRegions
from annotated_region.passes.partition_graph import PartitionGraph
from annotated_region.passes.plan_layout import PlanLayout
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.quantize import Quantize
from annotated_region.passes.quantize_weights import QuantizeWeights
from annotated_region.passes.raise_to_ops import RaiseToOps
from annotated_region.passes.read_origins import ReadOrigins
from annotated_region.passes.resolve_conflicts import ResolveConflicts
from annotated_region.passes.transform_layout import TransformLayout
from annotated_region.passes.write_origins import WriteOrigins

__all__ = [
    "AnnotateTarget",
    "AppendInPlace",
    "FuseTIRWithOpInfo",
    "InlinePartitions",
    "LegalizeWithOpInfo",
    "MergeCompilerRegions",
    "PartitionGraph",
    "PlanLayout",
    "PrepareForInference",
    "Quantize",
    "QuantizeWeights",
    "RaiseToOps",
    "ReadOrigins",
    "ResolveConflicts",
    "TransformLayout",
    "WriteOrigins",
]
