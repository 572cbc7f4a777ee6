"""Puts measured times beside the placement: a report whose regions say what they took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from annotated_region.errors import UsageError
from annotated_region.findings.function_report import FunctionReport, OpReport, RegionReport
from annotated_region.profiling.parts import ProfileParts, RegionTime
from annotated_region.reports.report import Report

__all__ = ["timed_report"]

_Shape = tuple[str, tuple[str, ...]]


def timed_report(parts: ProfileParts, report: Report) -> Report:
    """The report with the times of a profile.

    A region of the profile is that of the report which holds its ops. A region of the report that has none
    shares the function of an equal one: of the same target, with the same kinds of ops in the same order.

    Raises
    ------
    UsageError
        A region of the profile is none of the report.
    """
    found = dict(_found(parts, report))
    shapes = {_shape(function, region): time for (function, region), time in _by_region(found, report)}
    sharing = Counter(
        shapes[_shape(function, region)].symbol
        for function in report.functions
        for region in function.regions
        if _shape(function, region) in shapes
    )
    return replace(
        report, functions=tuple(_timed(function, shapes, sharing) for function in report.functions)
    )


def _found(parts: ProfileParts, report: Report) -> Iterator[tuple[tuple[str, int], RegionTime]]:
    """For regions of the report, by function and id, the region of the profile that holds the same ops."""
    for time in parts.regions:
        places = (
            (function.name, region.id)
            for function in report.functions
            for region in function.regions
            if region.target == time.target and set(time.ops) <= set(region.ops)
        )
        place = next(places, None)
        if place is None:
            raise UsageError(
                f"the region {time.symbol!r} of the profile is none of the report; explain the module that "
                "was partitioned, for the same targets, with the same policy and options"
            )
        yield place, time


def _by_region(
    found: Mapping[tuple[str, int], RegionTime], report: Report
) -> Iterator[tuple[tuple[FunctionReport, RegionReport], RegionTime]]:
    for function in report.functions:
        for region in function.regions:
            time = found.get((function.name, region.id))
            if time is not None:
                yield (function, region), time


def _shape(function: FunctionReport, region: RegionReport) -> _Shape:
    """The target of a region, and the kinds of its ops."""
    return region.target, tuple(op.op for op in _ops(function, region))


def _ops(function: FunctionReport, region: RegionReport) -> Sequence[OpReport]:
    return [op for op in function.ops if op.region == region.id]


def _timed(
    function: FunctionReport, shapes: Mapping[_Shape, RegionTime], sharing: Mapping[str, int]
) -> FunctionReport:
    regions = (
        _timed_region(function, region, shapes.get(_shape(function, region)), sharing)
        for region in function.regions
    )
    return replace(function, regions=tuple(regions))


def _timed_region(
    function: FunctionReport, region: RegionReport, time: RegionTime | None, sharing: Mapping[str, int]
) -> RegionReport:
    if time is None:
        return region
    costs = [op.costs[region.target] for op in _ops(function, region) if region.target in op.costs]
    share = time.seconds / sharing[time.symbol]
    return replace(region, symbol=time.symbol, seconds=share, expected=math.fsum(costs) if costs else None)
