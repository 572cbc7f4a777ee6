"""Adds the results of a check to a placement report: each region gets a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from annotated_region.checking.region_check import Culprit, RegionCheck
from annotated_region.findings.function_report import FunctionReport
from annotated_region.findings.verdicts import RegionVerdict, Verdict
from annotated_region.reports.region_matching import RegionKey, matched_regions
from annotated_region.reports.report import Report

__all__ = ["judged_report"]


def judged_report(regions: Sequence[RegionCheck], culprits: Sequence[Culprit], report: Report) -> Report:
    """The report with the verdict on each region; equal regions share a function, and its verdict.

    Raises
    ------
    UsageError
        A checked region is not in the report.
    """
    found = matched_regions(regions, lambda each: [op.name for op in each.ops], report, "check")
    blamed = {culprit.symbol: tuple(op.name for op in culprit.ops) for culprit in culprits}
    return replace(report, functions=tuple(_judged(each, found, blamed) for each in report.functions))


def _judged(
    function: FunctionReport,
    found: Mapping[RegionKey, RegionCheck],
    blamed: Mapping[str, tuple[str, ...]],
) -> FunctionReport:
    regions = []
    for region in function.regions:
        checked = found.get((function.name, region.id))
        verdict = None if checked is None else _verdict(checked, blamed.get(checked.symbol, ()))
        regions.append(replace(region, checked=verdict))
    return replace(function, regions=tuple(regions))


def _verdict(checked: RegionCheck, culprits: tuple[str, ...]) -> RegionVerdict:
    return RegionVerdict(_word(checked), checked.symbol, checked.absolute, checked.relative, culprits)


def _word(checked: RegionCheck) -> Verdict:
    if checked.error:
        return Verdict.FAILS
    if not checked.calls:
        return Verdict.NOT_RUN
    return Verdict.RIGHT if checked.ok else Verdict.WRONG
