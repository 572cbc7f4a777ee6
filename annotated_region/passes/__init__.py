"""The passes, each an IRModule -> IRModule transformation in a separate file.

Each is loaded when it is first used: a partition needs five of them.
"""

from typing import TYPE_CHECKING

from annotated_region.first_use import loading_on_first_use

if TYPE_CHECKING:
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

_MODULE_OF = {
    "AnnotateTarget": "annotate_target",
    "AppendInPlace": "append_in_place",
    "FuseTIRWithOpInfo": "fuse_tir_with_op_info",
    "InlinePartitions": "inline_partitions",
    "LegalizeWithOpInfo": "legalize_with_op_info",
    "MergeCompilerRegions": "merge_compiler_regions",
    "PartitionGraph": "partition_graph",
    "PlanLayout": "plan_layout",
    "PrepareForInference": "prepare_for_inference",
    "Quantize": "quantize",
    "QuantizeWeights": "quantize_weights",
    "RaiseToOps": "raise_to_ops",
    "ReadOrigins": "read_origins",
    "ResolveConflicts": "resolve_conflicts",
    "TransformLayout": "transform_layout",
    "WriteOrigins": "write_origins",
}

__getattr__ = loading_on_first_use(__name__, _MODULE_OF)
