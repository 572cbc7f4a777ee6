"""Explains what `partition` does, with its report; separate, because a partition alone needs no reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import tvm

from annotated_region.arguments import target_names
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.functions.modules import without_uncalled
from annotated_region.locking.lock import Lock, as_lock
from annotated_region.passes.partition_graph import NamesOfRegions, PartitionGraph
from annotated_region.passes.pipeline import placed_module
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

    With the `options` of `build`, the report also lists those that do not take effect on this machine
    (`Report.remarks`), such as ``{"dnnl": {"precision": "bf16"}}`` on a processor without bfloat16
    instructions. Raises `CodegenError` if an option or its value is unknown.
    """
    known, remarks = as_lock(lock), remarks_on(options, target_names(targets))
    placed, session = placed_module(
        mod,
        targets,
        policy,
        prepare=prepare,
        cross_compile=cross_compile,
        pins=pins,
        bans=bans,
        min_work=min_work,
        lock=known,
        keeps_notes=True,
    )
    report = report_of(session.take(placed).values(), session.notes, target_names(targets), known)
    return replace(report, remarks=remarks)


@paused_collector()
def partition_with_report(
    mod: tvm.IRModule,
    targets: Sequence[str],
    policy: Policy | None = None,
    *,
    prepare: bool = True,
    cross_compile: bool = False,
    pins: Mapping[str, str] | None = None,
    bans: Mapping[str, str | Sequence[str]] | None = None,
    min_work: Mapping[str, float] | None = None,
    lock: Lock | str | Path | None = None,
    names: NamesOfRegions = "places",
) -> tuple[tvm.IRModule, Report]:
    """The results of `partition` and `explain`, from a single run of the passes."""
    known = as_lock(lock)
    placed, session = placed_module(
        mod,
        targets,
        policy,
        prepare=prepare,
        cross_compile=cross_compile,
        pins=pins,
        bans=bans,
        min_work=min_work,
        lock=known,
        keeps_notes=True,
    )
    report = report_of(session.take(placed).values(), session.notes, target_names(targets), known)
    partitioned = session.with_annotations(session.run([PartitionGraph(names)], placed))
    return without_uncalled(mod, partitioned), report
