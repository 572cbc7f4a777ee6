"""The pipeline: the passes in their order, and `partition`, which runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import tvm

from annotated_region.arguments import target_names
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.functions.modules import require_well_formed, without_uncalled
from annotated_region.functions.nesting import require_shallow
from annotated_region.locking.lock import Lock, as_lock
from annotated_region.passes.annotate_target import AnnotateTarget
from annotated_region.passes.merge_compiler_regions import MergeCompilerRegions
from annotated_region.passes.module_pass import ModulePass
from annotated_region.passes.partition_graph import NamesOfRegions, PartitionGraph
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.read_origins import ReadOrigins
from annotated_region.passes.region_pass import RegionPass
from annotated_region.passes.region_session import RegionSession, SessionStep
from annotated_region.passes.resolve_conflicts import ResolveConflicts
from annotated_region.policies.pins import Pins, require_target
from annotated_region.policies.policy import Policy, Priority
from annotated_region.surroundings import require_sane_threads
from annotated_region.targets.backend import backend_of

__all__ = ["Placing", "partition", "passes_before_functions", "placed_module", "placement_passes"]


class Placing(TypedDict, total=False):
    """The keywords of `partition` that decide which target runs an op."""

    cross_compile: bool
    pins: Mapping[str, str] | None
    bans: Mapping[str, str | Sequence[str]] | None
    min_work: Mapping[str, float] | None
    lock: Lock | str | Path | None


def placement_passes(
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    cross_compile: bool = False,
    pins: Mapping[str, str] | None = None,
    bans: Mapping[str, str | Sequence[str]] | None = None,
    min_work: Mapping[str, float] | None = None,
    lock: Lock | str | Path | None = None,
) -> list[RegionPass]:
    """The passes that assign ops to targets, in pipeline order; `PartitionGraph` follows them.

    The parameters are those of `partition`.
    """
    names = target_names(targets)
    for target in names:
        backend_of(target)
    # Constructed first, because it validates its arguments.
    resolve = ResolveConflicts(
        Priority(names) if policy is None else policy,
        cross_compile,
        pins=pins,
        bans=bans,
        min_work=min_work,
        lock=as_lock(lock),
    )
    Pins(pins or {}, bans or {}).require_targets(names)
    for target in min_work or {}:
        require_target("the least work is given for", target, names)
    return [
        # Each target claims every op it can run; its claims are merged into the largest valid regions.
        AnnotateTarget(names),
        MergeCompilerRegions(keeps_limits=False),
        # Each node is assigned to one target; the remaining regions of a target are merged again.
        resolve,
        MergeCompilerRegions(),
    ]


@checked
@paused_collector()
def partition(
    mod: tvm.IRModule,
    targets: str | Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    cross_compile: bool = False,
    pins: Mapping[str, str] | None = None,
    bans: Mapping[str, str | Sequence[str]] | None = None,
    min_work: Mapping[str, float] | None = None,
    lock: Lock | str | Path | None = None,
    names: NamesOfRegions = "places",
) -> tvm.IRModule:
    """Partition a module for the given targets: the whole pipeline.

    It runs `PrepareForInference(targets=targets)`, `AnnotateTarget`, `MergeCompilerRegions`,
    `ResolveConflicts`, `MergeCompilerRegions` and `PartitionGraph` in a ``tvm.transform.Sequential``, so that
    a ``PassContext`` can instrument, skip or disable them. Annotations are written between passes only if
    an instrument is active (see `annotated_region.passes.region_session`).

    Parameters
    ----------
    mod
        Any well-formed module; it is not modified.
    targets
        The names of the targets in order of preference.
    policy
        How conflicts are resolved; by default `Priority` in the order of `targets`.
    prepare
        Whether to run `PrepareForInference` first.
    cross_compile
        Whether regions may be assigned to targets that cannot run on this machine.
    pins
        Maps a binding name (``"lv3"``), an origin (an ONNX node, a PyTorch module and line) or an op name
        (``"relax.nn.softmax"``) to the only target allowed to run it, or to ``"host"``. Names are those of
        the prepared module, as `explain` shows them; `OpReport.key` identifies a single op.
    bans
        Maps the same keys to the targets that must not run them.
    min_work
        By target, the minimum work of a region (see `ResolveConflicts`).
    lock
        An `ar.Lock` (see `Report.to_lock`), or the path of one: ops that the lock covers keep their
        placement, and only changed parts of the module are placed again. The differences, with their
        reasons, are ``lock.diff(ar.explain(..., lock=lock).to_lock())``.
    names
        How external functions are named: after their ``"places"`` in the imported model, or by
        ``"numbers"`` (see `PartitionGraph`).

    Returns
    -------
    A module with one external function per region.

    Raises
    ------
    UnknownTargetError
        A target has no rule, pattern or backend.
    DocumentError
        The lock is not a valid lock, or was written for another model.
    UsageError
        An argument has the wrong type, such as a string as the policy.
    PinError
        A key of `pins`, `bans` or `min_work` matches nothing or is ambiguous; or a pin names a target that
        declines the op.
    InvalidModuleError
        The module is not well formed.
    RuleError
        A rule of a target failed.
    BackendUnavailableError
        The environment requests more threads than TVM can create without crashing.

    Examples
    --------
    >>> import annotated_region as ar
    >>> partitioned = ar.partition(mod, ["tensorrt", "dnnl"])  # doctest: +SKIP
    """
    passes = [
        *_preparation(targets, prepare=prepare),
        *placement_passes(
            targets,
            policy,
            cross_compile=cross_compile,
            pins=pins,
            bans=bans,
            min_work=min_work,
            lock=lock,
        ),
        PartitionGraph(names),
    ]
    _require_sound(mod)
    session = RegionSession(checked=mod)
    return without_uncalled(mod, session.with_annotations(session.run(passes, mod)))


@paused_collector()
def placed_module(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    keeps_notes: bool = False,
    **placing: Unpack[Placing],
) -> tuple[tvm.IRModule, RegionSession]:
    """The module just before `PartitionGraph`, and the session that holds its regions and notes."""
    passes = [*_preparation(targets, prepare=prepare), *placement_passes(targets, policy, **placing)]
    _require_sound(mod)
    session = RegionSession(keeps_notes=keeps_notes, checked=mod)
    return session.run(passes, mod), session


def passes_before_functions(
    targets: Sequence[str],
    policy: Policy,
    *,
    prepare: bool,
    cross_compile: bool,
    min_work: Mapping[str, float] | None,
) -> list[SessionStep]:
    """The passes of `partition` before `PartitionGraph`; parameters are those of `partition`."""
    placing = placement_passes(targets, policy, cross_compile=cross_compile, min_work=min_work)
    return [*_preparation(targets, prepare=prepare), *placing]


def _preparation(targets: Sequence[str], *, prepare: bool) -> list[ModulePass]:
    return [ReadOrigins(), *([PrepareForInference(targets=targets)] if prepare else [])]


def _require_sound(mod: tvm.IRModule) -> None:
    require_sane_threads()
    require_well_formed(mod)
    require_shallow(mod)
