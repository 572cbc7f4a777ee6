"""The names that users rely on, and what the facade does with them."""

import pytest

import annotated_region as ar

NAMES = [
    "Advice",
    "advise",
    "LeastCost",
    "CostModel",
    "CostUnit",
    "Device",
    "FusedFunction",
    "IncrementalPartition",
    "KeyValueCache",
    "MeasuredCost",
    "MeasurementWarning",
    "Policy",
    "Resolution",
    "RooflineCost",
    "UnitCost",
    "AnnotatedRegion",
    "AnnotatedRegionSet",
    "Backend",
    "BuildOptions",
    "Certificate",
    "CheckReport",
    "Culprit",
    "Composite",
    "Limits",
    "LinkedExecutable",
    "Lock",
    "OpInfo",
    "OpInfoError",
    "infer_op_info",
    "op_infos",
    "OpView",
    "Priority",
    "Profile",
    "Report",
    "build",
    "check",
    "check_certificate",
    "compiler_begin",
    "compiler_end",
    "explain",
    "export",
    "from_exported_program",
    "from_onnx",
    "extract_fused_functions",
    "extract_hashed_functions",
    "to_tuning_tasks",
    "known_targets",
    "partition",
    "profile",
    "passes",
    "backends",
    "register_backend",
    "register_pattern",
    "register_patterns",
    "register_rule",
    "__version__",
    "AnnotatedRegionError",
    "ArgumentError",
    "BackendUnavailableError",
    "BuildError",
    "BundleError",
    "CacheError",
    "CacheWarning",
    "CodegenError",
    "ConformanceError",
    "DocumentError",
    "DrawingError",
    "InputError",
    "InvalidBackendError",
    "InvalidClaimError",
    "InvalidModuleError",
    "MalformedAnnotationError",
    "ModelError",
    "OverlappingRegionsError",
    "PinError",
    "PolicyError",
    "RegionCycleError",
    "RegionRejectedError",
    "RegionRejectedWarning",
    "ReproducerError",
    "RuleError",
    "RunError",
    "SlowBackendWarning",
    "UnknownTargetError",
    "UsageError",
    "VersionError",
]

PASSES = [
    "AnnotateTarget",
    "FuseTIRWithOpInfo",
    "LegalizeWithOpInfo",
    "RaiseToOps",
    "MergeCompilerRegions",
    "PartitionGraph",
    "PlanLayout",
    "PrepareForInference",
    "ResolveConflicts",
    "TransformLayout",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_facade_offers(name):
    assert name in ar.__all__
    assert getattr(ar, name) is not None


def test_the_facade_offers_nothing_else_by_accident():
    unpinned = set(ar.__all__) - set(NAMES)
    assert not unpinned, f"pin these names here once they are meant to be public: {sorted(unpinned)}"


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_offered(name):
    assert name in ar.passes.__all__
    assert getattr(ar.passes, name).__doc__


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("Error")])
def test_every_error_is_one_of_ours(name):
    assert issubclass(getattr(ar, name), ar.AnnotatedRegionError)
