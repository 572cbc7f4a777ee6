"""Matches measurements of external functions with the regions of a report.

Equal regions share an external function, and a measurement names the ops of the first region. Other regions
are matched by equality with it: the same target, and the same ops on the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from annotated_region.errors import UsageError
from annotated_region.findings.function_report import FunctionReport, OpReport, RegionReport
from annotated_region.reports.report import Report

__all__ = ["Measured", "RegionKey", "matched_regions", "ops_of"]

RegionKey = tuple[str, int]
"""The name of a function, and the id of a region in it."""

_Shape = tuple[str, tuple[tuple[str, tuple[str, ...], str], ...]]


class Measured(Protocol):
    """A measurement of an external function."""

    @property
    def symbol(self) -> str:
        """The name of the function."""

    @property
    def target(self) -> str:
        """Its target."""


Item = TypeVar("Item", bound=Measured)


def matched_regions(
    items: Sequence[Item], names_in: Callable[[Item], Sequence[str]], report: Report, what: str
) -> dict[RegionKey, Item]:
    """The measurements of the regions of a report.

    Parameters
    ----------
    items
        The measurements, one per function.
    names_in
        The names of the measured ops of an item.
    report
        The report on the module that it was measured on.
    what
        The name of the items in messages, such as ``"profile"``.

    Raises
    ------
    UsageError
        An item matches no region of the report.
    """
    named = dict(_named(items, names_in, report, what))
    places = [(function, region) for function in report.functions for region in function.regions]
    shapes: dict[_Shape, Item] = {}
    for function, region in places:
        if (function.name, region.id) in named:
            shapes.setdefault(_shape(function, region), named[function.name, region.id])
    found: dict[RegionKey, Item] = {}
    for function, region in places:
        key = function.name, region.id
        item = named.get(key) or shapes.get(_shape(function, region))
        if item is not None:
            found[key] = item
    return found


def ops_of(function: FunctionReport, region: RegionReport) -> list[OpReport]:
    """The ops of a region, in program order."""
    return [op for op in function.ops if op.region == region.id]


def _named(
    items: Sequence[Item], names_in: Callable[[Item], Sequence[str]], report: Report, what: str
) -> Iterator[tuple[RegionKey, Item]]:
    holders = _holders(report)
    for item in items:
        names = set(names_in(item))
        places = (
            (function, region)
            for function, region in holders.get((item.target, next(iter(names_in(item)), "")), ())
            if names <= set(region.ops)
        )
        place = next(places, None)
        if place is None:
            raise UsageError(
                f"the region {item.symbol!r} of the {what} is not in the report; explain the module that "
                "was partitioned, for the same targets, with the same policy and options"
            )
        yield (place[0].name, place[1].id), item


def _holders(report: Report) -> Mapping[tuple[str, str], list[tuple[FunctionReport, RegionReport]]]:
    """The regions that hold an op, by their target and its name."""
    found: dict[tuple[str, str], list[tuple[FunctionReport, RegionReport]]] = {}
    for function in report.functions:
        for region in function.regions:
            for name in region.ops:
                found.setdefault((region.target, name), []).append((function, region))
    return found


def _shape(function: FunctionReport, region: RegionReport) -> _Shape:
    """The target of a region, and its ops with their types."""
    ops = ops_of(function, region)
    return region.target, tuple((op.op, op.inputs, op.output) for op in ops)
