"""The facade: everything a user needs, as ``import annotated_region as ar``."""

from annotated_region import _loading as _loading  # before all else, because loading takes its time
from annotated_region import tvm_adapter as tvm_adapter  # before the rooms, because it checks TVM's version

# isort: split
from annotated_region import error_classes as error_classes  # errors may be raised while the rest is loaded

# isort: split
from annotated_region import backends, passes
from annotated_region._version import __version__
from annotated_region.advising.advice import Advice
from annotated_region.advising.advise import advise
from annotated_region.annotations import compiler_begin, compiler_end
from annotated_region.bundling import export
from annotated_region.certificates import Certificate
from annotated_region.checking.check import check
from annotated_region.checking.check_report import CheckReport, Culprit
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.cost_units import CostUnit
from annotated_region.costs import CostModel, Device, RooflineCost, UnitCost
from annotated_region.errors import (
    AnnotatedRegionError,
    ArgumentError,
    BackendUnavailableError,
    BuildError,
    BundleError,
    CacheWarning,
    CodegenError,
    ConformanceError,
    DocumentError,
    DrawingError,
    InputError,
    InvalidBackendError,
    InvalidClaimError,
    InvalidModuleError,
    MalformedAnnotationError,
    MeasurementWarning,
    ModelError,
    OpInfoError,
    OverlappingRegionsError,
    PinError,
    RegionCycleError,
    RegionRejectedError,
    RegionRejectedWarning,
    ReproducerError,
    RuleError,
    RunError,
    SlowBackendWarning,
    UnknownTargetError,
    UsageError,
    VersionError,
)
from annotated_region.extraction import (
    FusedFunction,
    extract_fused_functions,
    extract_hashed_functions,
    to_tuning_tasks,
)
from annotated_region.importing import Limits, from_exported_program, from_onnx
from annotated_region.locking.lock import Lock
from annotated_region.measuring import MeasuredCost
from annotated_region.op_info import OpInfo, infer_op_info, op_infos
from annotated_region.passes.build import build
from annotated_region.passes.pipeline import explain, partition
from annotated_region.policies.least_cost import LeastCost
from annotated_region.policies.policy import Policy, Priority, Resolution
from annotated_region.profiling.profile import profile
from annotated_region.profiling.times import Profile
from annotated_region.regions.certificate import check_certificate
from annotated_region.regions.region import AnnotatedRegion, Composite
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.reports.report import Report
from annotated_region.targets.backend import Backend, BuildOptions, known_targets, register_backend
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern, register_patterns, register_rule

__all__ = [
    "Advice",
    "AnnotatedRegion",
    "AnnotatedRegionError",
    "AnnotatedRegionSet",
    "ArgumentError",
    "Backend",
    "BackendUnavailableError",
    "BuildError",
    "BundleError",
    "BuildOptions",
    "CacheWarning",
    "Certificate",
    "CheckReport",
    "CodegenError",
    "ConformanceError",
    "DocumentError",
    "Composite",
    "CostModel",
    "CostUnit",
    "Culprit",
    "Device",
    "DrawingError",
    "FusedFunction",
    "InputError",
    "InvalidBackendError",
    "InvalidClaimError",
    "InvalidModuleError",
    "LeastCost",
    "Limits",
    "LinkedExecutable",
    "Lock",
    "MalformedAnnotationError",
    "MeasuredCost",
    "MeasurementWarning",
    "ModelError",
    "OpInfo",
    "OpInfoError",
    "OpView",
    "OverlappingRegionsError",
    "PinError",
    "Policy",
    "Priority",
    "Profile",
    "RegionCycleError",
    "RegionRejectedError",
    "RegionRejectedWarning",
    "Report",
    "ReproducerError",
    "Resolution",
    "RooflineCost",
    "RuleError",
    "RunError",
    "SlowBackendWarning",
    "UnitCost",
    "UnknownTargetError",
    "UsageError",
    "VersionError",
    "__version__",
    "advise",
    "backends",
    "build",
    "check",
    "check_certificate",
    "compiler_begin",
    "compiler_end",
    "explain",
    "export",
    "infer_op_info",
    "extract_fused_functions",
    "extract_hashed_functions",
    "from_exported_program",
    "from_onnx",
    "known_targets",
    "op_infos",
    "partition",
    "passes",
    "profile",
    "register_backend",
    "register_pattern",
    "register_patterns",
    "register_rule",
    "to_tuning_tasks",
]
