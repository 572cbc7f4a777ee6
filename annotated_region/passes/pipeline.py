"""The pipeline: the passes in their order, and `partition`, which runs them."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from annotated_region.backend import backend_of
from annotated_region.modules import require_well_formed
from annotated_region.passes.annotate_target import AnnotateTarget
from annotated_region.passes.merge_compiler_regions import MergeCompilerRegions
from annotated_region.passes.partition_graph import PartitionGraph
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.resolve_conflicts import ResolveConflicts
from annotated_region.policies import Policy, Priority
from annotated_region.record import recording
from annotated_region.report import Report

__all__ = ["explain", "partition", "placement_pipeline"]


def placement_pipeline(
    targets: Sequence[str], policy: Policy | None = None, *, prepare: bool = True, cross_compile: bool = False
) -> list[tvm.ir.transform.Pass]:
    """The passes that decide which target gets what, in their order; all but the last step.

    Parameters are those of `partition`.
    """
    names = [targets] if isinstance(targets, str) else list(targets)
    for target in names:
        backend_of(target)
    return [
        # Make the module fit for inference offload.
        *([PrepareForInference()] if prepare else []),
        # Every target claims what it can run, as much at once as it can.
        AnnotateTarget(names),
        MergeCompilerRegions(),
        # Each node gets one target, and what belongs to one target grows together again.
        ResolveConflicts(policy or Priority(names), cross_compile),
        MergeCompilerRegions(),
    ]


def partition(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    cross_compile: bool = False,
) -> tvm.IRModule:
    """Partition a module for the given targets: the whole pipeline.

    Parameters
    ----------
    mod
        Any well-formed module; it is not changed.
    targets
        The names of the targets, the most preferred first.
    policy
        How conflicts are resolved; `Priority` in the order of `targets` if not given.
    prepare
        Whether to make the module fit for inference first (see `PrepareForInference`).
    cross_compile
        Whether targets that cannot run on this machine may win.

    Returns
    -------
    A module with one external function a region.

    Raises
    ------
    UnknownTargetError
        A target has no rule, pattern or backend.
    InvalidModuleError
        The module is not well formed.
    RuleError
        A rule of a target failed.

    Examples
    --------
    >>> import annotated_region as ar
    >>> partitioned = ar.partition(mod, ["tensorrt", "dnnl"])  # doctest: +SKIP
    """
    require_well_formed(mod)
    passes = placement_pipeline(targets, policy, prepare=prepare, cross_compile=cross_compile)
    return tvm.transform.Sequential([*passes, PartitionGraph()], name="partition")(mod)


def explain(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    cross_compile: bool = False,
) -> Report:
    """What `partition` does with the same arguments, and why: who claimed what, who declined, who won."""
    require_well_formed(mod)
    with recording() as record:
        passes = placement_pipeline(targets, policy, prepare=prepare, cross_compile=cross_compile)
        placed = tvm.transform.Sequential(passes, name="explain")(mod)
    return Report.of(record, placed)
