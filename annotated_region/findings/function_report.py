"""The report of one function: its ops, regions and values, and who claimed and who got each op."""

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
        Its external function, if the report includes a profile; else empty.
    seconds
        Its measured time in one run; None without a profile.
    expected
        The time that a cost-based policy expects of its ops, without launches and transfers.
    checked
        The result of a check; None without a check.
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
    """Two neighbouring regions of one target, each by an op, and an op on a path between them, if any."""

    target: str
    left: str
    right: str
    between: str | None


class DissolvedReport(NamedTuple):
    """A dissolved region: its target, its ops, and the reason."""

    target: str
    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ValueReport:
    """A value of a function with its producer and consumers.

    Attributes
    ----------
    name
        The variable, with the path of fields for a part of a tuple.
    producer
        The position of the producing op among the ops of the report; None for a parameter.
    consumers
        The positions of the consuming ops, in program order.
    result
        Whether the function returns it.
    bytes
        Its size; None if it is not static.
    type
        Its type in words, such as ``"float32[n, 4]"``; empty in reports saved by versions without this field.
    """

    name: str
    producer: int | None
    consumers: tuple[int, ...]
    result: bool
    bytes: int | None
    type: str = ""

    @property
    def type_phrase(self) -> str:
        """Its type, or a placeholder if the report has none."""
        return self.type or "symbolic size"


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """One function: its ops in program order, its regions, the notes of the passes, and its values."""

    name: str
    ops: tuple[OpReport, ...]
    regions: tuple[RegionReport, ...]
    unavailable: dict[str, str]
    apart: tuple[ApartReport, ...]
    dissolved: tuple[DissolvedReport, ...]
    resolution: dict[str, Any]
    values: tuple[ValueReport, ...] = ()

    def summary(self) -> Iterator[str]:
        """One line for each target with regions, then one for the host, then further findings."""
        yield from self.target_lines()
        yield words_for_host(host_groups(self.ops))
        yield from self.further_lines()

    def target_lines(self) -> Iterator[str]:
        """One line for each target that has regions or cannot run here; one for all others that claim ops."""
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
        """Regions that are kept apart; if known, the times of regions and the verdicts of a check."""
        called = {op.name: op.called for op in self.ops}
        for each in self.apart[:_APART_SHOWN]:
            left, right = called.get(each.left, each.left), called.get(each.right, each.right)
            between = None if each.between is None else called.get(each.between, each.between)
            yield words_for_neighbours(each.target, left, right, between)
        for region in self.regions:
            if region.seconds is not None:
                yield words_for_time(region.id, region.target, region.symbol, region.seconds, region.expected)
            if region.checked is not None:
                verdict = words_for_verdict(region.checked)
                yield f"{region.target}: region {region.id} ({region.checked.symbol}) is {verdict}"
        if len(self.apart) > _APART_SHOWN:
            yield f"and {len(self.apart) - _APART_SHOWN} more pairs of regions are kept apart"

    def details(self) -> Iterator[str]:
        """One line for each op: its name, op and types, work, placement, and the reasons."""
        for op in self.ops:
            place = op.placed if op.region is None else f"{op.placed}, region {op.region}"
            parts = (f"{op.op.removeprefix('relax.')}: {op.types}", op.work, place, op.why)
            yield f"{op.key or op.name} = {'; '.join(part for part in parts if part)}"
