"""The facade: everything a user needs, as ``import annotated_region as ar``.

A public name is loaded on first use: loading all of them takes half a second. Importing the package runs
``registration``, which tells TVM the package's errors and ops, except in the program `annotated-region`,
which parses its arguments before it loads TVM.
"""

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from annotated_region import _loading as _loading  # first: it handles interrupts during the imports below
from annotated_region._version import __version__
from annotated_region.collector import paused_collector
from annotated_region.errors import (
    AnnotatedRegionError,
    ArgumentError,
    BackendUnavailableError,
    BuildError,
    BundleError,
    CacheError,
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
    PolicyError,
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

if not _loading.IN_PROGRAM:
    from annotated_region import registration as registration

if TYPE_CHECKING:
    from annotated_region import backends, passes
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
    from annotated_region.decoding.key_value_cache import KeyValueCache
    from annotated_region.extraction import (
        FusedFunction,
        extract_fused_functions,
        extract_hashed_functions,
        to_tuning_tasks,
    )
    from annotated_region.importing.confinement.limits import Limits
    from annotated_region.importing.onnx_models.entry import from_onnx
    from annotated_region.importing.torch_programs.entry import from_exported_program
    from annotated_region.incremental.partition_again import IncrementalPartition
    from annotated_region.locking.lock import Lock
    from annotated_region.measuring import MeasuredCost
    from annotated_region.op_info import OpInfo, infer_op_info, op_infos
    from annotated_region.passes.build import build
    from annotated_region.passes.explanation import explain
    from annotated_region.passes.pipeline import partition
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
    "CacheError",
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
    "IncrementalPartition",
    "InputError",
    "InvalidBackendError",
    "InvalidClaimError",
    "InvalidModuleError",
    "KeyValueCache",
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
    "PolicyError",
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

_PUBLIC: Final[Mapping[str, tuple[str, ...]]] = {
    "advising.advice": ("Advice",),
    "advising.advise": ("advise",),
    "annotations": (
        "compiler_begin",
        "compiler_end",
    ),
    "bundling": ("export",),
    "certificates": ("Certificate",),
    "checking.check": ("check",),
    "checking.check_report": (
        "CheckReport",
        "Culprit",
    ),
    "compilation.executable": ("LinkedExecutable",),
    "cost_units": ("CostUnit",),
    "costs": (
        "CostModel",
        "Device",
        "RooflineCost",
        "UnitCost",
    ),
    "decoding.key_value_cache": ("KeyValueCache",),
    "extraction": (
        "FusedFunction",
        "extract_fused_functions",
        "extract_hashed_functions",
        "to_tuning_tasks",
    ),
    "importing.confinement.limits": ("Limits",),
    "importing.onnx_models.entry": ("from_onnx",),
    "importing.torch_programs.entry": ("from_exported_program",),
    "incremental.partition_again": ("IncrementalPartition",),
    "locking.lock": ("Lock",),
    "measuring": ("MeasuredCost",),
    "op_info": (
        "OpInfo",
        "infer_op_info",
        "op_infos",
    ),
    "passes.build": ("build",),
    "passes.explanation": ("explain",),
    "passes.pipeline": ("partition",),
    "policies.least_cost": ("LeastCost",),
    "policies.policy": (
        "Policy",
        "Priority",
        "Resolution",
    ),
    "profiling.profile": ("profile",),
    "profiling.times": ("Profile",),
    "regions.certificate": ("check_certificate",),
    "regions.region": (
        "AnnotatedRegion",
        "Composite",
    ),
    "regions.region_set": ("AnnotatedRegionSet",),
    "reports.report": ("Report",),
    "targets.backend": (
        "Backend",
        "BuildOptions",
        "known_targets",
        "register_backend",
    ),
    "targets.op_view": ("OpView",),
    "targets.rules": (
        "register_pattern",
        "register_patterns",
        "register_rule",
    ),
}
"""Public names by module, loaded on first use; type checkers read the imports above."""

_MODULE_OF: Final = {name: f"{__name__}.{module}" for module, names in _PUBLIC.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name, or a room of the package such as ``ar.passes``; called once for each.

    What a module makes while it is loaded stays, so the garbage collector would look through it for nothing.

    Raises
    ------
    AttributeError
        The package has no such name.
    """
    if name in _MODULE_OF:
        with paused_collector():
            found = getattr(importlib.import_module(_MODULE_OF[name]), name)
    elif not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}"):
        found = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
