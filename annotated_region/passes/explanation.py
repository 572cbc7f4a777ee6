"""Explains what `partition` does, with its report; separate, because a partition alone needs no reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import tvm

from annotated_region.arguments import target_names
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.functions.modules import without_uncalled
from annotated_region.locking.lock import Lock, as_lock
from annotated_region.passes.partition_graph import NamesOfRegions, PartitionGraph
from annotated_region.passes.pipeline import Placing, placed_module
from annotated_region.passes.region_session import RegionSession
from annotated_region.policies.policy import Policy
from annotated_region.reports.report import Report
from annotated_region.reports.reporting import report_of
from annotated_region.targets.remarks import remarks_on

__all__ = ["explain", "partition_with_report"]


@checked
@paused_collector()
def explain(
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
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Report:
    """Report what `partition` does with the same arguments, and why: claims, declines, final assignment.

    Parameters
    ----------
    mod, targets, policy, prepare, cross_compile, pins, bans, min_work, lock
        See `partition`.
    options
        The options of `build`, by target: the report lists those that do not take effect on this machine
        (`Report.remarks`), such as ``{"dnnl": {"precision": "bf16"}}`` on a processor without bfloat16
        instructions.

    Raises
    ------
    CodegenError
        An option or its value is unknown. The other errors are those of `partition`.

    Examples
    --------
    >>> print(ar.explain(mod, ["tensorrt", "dnnl"]))  # doctest: +SKIP
    """
    remarks = remarks_on(options, target_names(targets))
    *_, report = _reported(
        mod,
        targets,
        policy,
        prepare=prepare,
        cross_compile=cross_compile,
        pins=pins,
        bans=bans,
        min_work=min_work,
        lock=lock,
    )
    return replace(report, remarks=remarks)


@paused_collector()
def partition_with_report(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    names: NamesOfRegions = "places",
    **placing: Unpack[Placing],
) -> tuple[tvm.IRModule, Report]:
    """The results of `partition` and `explain`, from a single run of the passes."""
    placed, session, report = _reported(mod, targets, policy, prepare=prepare, **placing)
    partitioned = session.with_annotations(session.run([PartitionGraph(names)], placed))
    return without_uncalled(mod, partitioned), report


def _reported(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None,
    *,
    prepare: bool,
    **placing: Unpack[Placing],
) -> tuple[tvm.IRModule, RegionSession, Report]:
    """The module just before `PartitionGraph`, its session, and the report."""
    known = placing["lock"] = as_lock(placing.get("lock"))
    placed, session = placed_module(mod, targets, policy, prepare=prepare, keeps_notes=True, **placing)
    report = report_of(session.take(placed).values(), session.notes, target_names(targets), known)
    return placed, session, report
