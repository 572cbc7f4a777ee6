"""The report of one function: its ops, regions and values, who claimed what, and who got it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from annotated_region.findings.host_ops import host_groups, words_for_host
from annotated_region.findings.op_report import OpReport
from annotated_region.findings.verdicts import RegionVerdict, words_for_verdict
from annotated_region.findings.wording import (
    words_for_counts,
    words_for_neighbours,
    words_for_no_region,
    words_for_time,
)

__all__ = [
    "ApartReport",
    "DissolvedReport",
    "FunctionReport",
    "OpReport",
    "RegionReport",
    "ValueReport",
]

_APART_SHOWN = 8  # pairs of regions in the summary


@dataclass(frozen=True, slots=True)
class RegionReport:
    """One region: its target, and the names of its ops, inputs, outputs and composites.

    Attributes
    ----------
    symbol
        Its external function, where a profile is told beside the placement; else empty.
    seconds
        What it took in a run, as measured; None where there is no profile.
    expected
        What the policy expects of its ops together, if it goes by costs, without launches and transfers.
    checked
        What a check found of it; None where there is no check.
    """

    id: int
    target: str
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    composites: tuple[str, ...]
    symbol: str = ""
    seconds: float | None = None
    expected: float | None = None
    checked: RegionVerdict | None = None


@dataclass(frozen=True, slots=True)
class ApartReport:
    """Two neighbouring regions of one target, each by an op, and the op that stands between them, if any."""

    target: str
    left: str
    right: str
    between: str | None


class DissolvedReport(NamedTuple):
    """A region that was given back: its target, its ops, and why."""

    target: str
    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ValueReport:
    """One value on its way through a function.

    Attributes
    ----------
    name
        The variable, with the path of fields if it is a part of a tuple.
    producer
        The position of the op that makes it among the ops of the report; None for a parameter.
    consumers
        The positions of the ops that read it, in program order.
    result
        Whether the function returns it.
    bytes
        Its size; None if that is not known before the function runs.
    type
        Its type in words, such as ``"float32[n, 4]"``; empty in reports that were saved before there was one.
    """

    name: str
    producer: int | None
    consumers: tuple[int, ...]
    result: bool
    bytes: int | None
    type: str = ""

    @property
    def told(self) -> str:
        """Its type, or that its size is symbolic where that is not known."""
        return self.type or "symbolic size"


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """One function: its ops in program order, its regions, what the passes noted, and its values."""

    name: str
    ops: tuple[OpReport, ...]
    regions: tuple[RegionReport, ...]
    unavailable: dict[str, str]
    apart: tuple[ApartReport, ...]
    dissolved: tuple[DissolvedReport, ...]
    resolution: dict[str, Any]
    values: tuple[ValueReport, ...] = ()

    def summary(self) -> Iterator[str]:
        """One line a target that has regions, then one for the host, then what stands out."""
        yield from self.target_lines()
        yield words_for_host(host_groups(self.ops))
        yield from self.further_lines()

    def target_lines(self) -> Iterator[str]:
        """One line a target that has regions or cannot run here; one for those that claim and got nothing."""
        claimed = Counter(target for op in self.ops for target in op.claims)
        won = Counter(op.placed for op in self.ops)
        regions = Counter(region.target for region in self.regions)
        without: dict[str, int] = {}
        for target in dict.fromkeys((*claimed, *regions, *self.unavailable)):
            if not regions[target] and target not in self.unavailable:
                without[target] = claimed[target]
                continue
            yield words_for_counts(
                target,
                ops=won[target],
                total=len(self.ops),
                regions=regions[target],
                claimed=claimed[target],
                unavailable=self.unavailable.get(target),
            )
        if without:
            yield words_for_no_region(without)

    def further_lines(self) -> Iterator[str]:
        """The regions that are kept apart; where it is known, what they took, and whether they are right."""
        called = {op.name: op.called for op in self.ops}
        for each in self.apart[:_APART_SHOWN]:
            left, right = called.get(each.left, each.left), called.get(each.right, each.right)
            between = None if each.between is None else called.get(each.between, each.between)
            yield words_for_neighbours(each.target, left, right, between)
        for region in self.regions:
            if region.seconds is not None:
                yield words_for_time(region.id, region.target, region.symbol, region.seconds, region.expected)
            if region.checked is not None:
                told = words_for_verdict(region.checked)
                yield f"{region.target}: region {region.id} ({region.checked.symbol}) is {told}"
        if len(self.apart) > _APART_SHOWN:
            yield f"and {len(self.apart) - _APART_SHOWN} more pairs of regions are kept apart"

    def details(self) -> Iterator[str]:
        """One line an op: what it is called, what it computes on what, its work, where it went, and why."""
        for op in self.ops:
            place = op.placed if op.region is None else f"{op.placed}, region {op.region}"
            parts = (f"{op.op.removeprefix('relax.')}: {op.types}", op.work, place, op.why)
            yield f"{op.key or op.name} = {'; '.join(part for part in parts if part)}"
