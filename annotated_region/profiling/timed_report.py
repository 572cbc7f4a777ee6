"""Adds measured times to a placement report: each region gets its time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from annotated_region.findings.function_report import FunctionReport, RegionReport
from annotated_region.profiling.parts import ProfileParts, RegionTime
from annotated_region.reports.region_matching import RegionKey, matched_regions, ops_of
from annotated_region.reports.report import Report

__all__ = ["timed_report"]


def timed_report(parts: ProfileParts, report: Report) -> Report:
    """The report with the times of a profile; equal regions that share a function share its time.

    Raises
    ------
    UsageError
        A region of the profile is not in the report.
    """
    found = matched_regions(parts.regions, lambda time: time.ops, report, "profile")
    sharing = Counter(time.symbol for time in found.values())
    return replace(report, functions=tuple(_timed(each, found, sharing) for each in report.functions))


def _timed(
    function: FunctionReport, found: Mapping[RegionKey, RegionTime], sharing: Mapping[str, int]
) -> FunctionReport:
    regions = (
        _timed_region(function, region, found.get((function.name, region.id)), sharing)
        for region in function.regions
    )
    return replace(function, regions=tuple(regions))


def _timed_region(
    function: FunctionReport, region: RegionReport, time: RegionTime | None, sharing: Mapping[str, int]
) -> RegionReport:
    if time is None:
        return region
    ops = ops_of(function, region)
    costs = [op.costs[region.target] for op in ops if region.target in op.costs]
    share = time.seconds / sharing[time.symbol]
    return replace(region, symbol=time.symbol, seconds=share, expected=math.fsum(costs) if costs else None)
