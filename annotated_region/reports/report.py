"""Reports: which target got what, and why, as text and as data."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from annotated_region.costs.model import HOST
from annotated_region.drawing import draw
from annotated_region.reports.report_diff import ReportDiff, difference
from annotated_region.reports.value_flow import ValueReport
from annotated_region.reports.wording import words_for_counts, words_for_host, words_for_neighbours

__all__ = ["ApartReport", "DissolvedReport", "FunctionReport", "OpReport", "RegionReport", "Report"]

_APART_SHOWN = 8  # pairs of regions in the summary


@dataclass(frozen=True, slots=True)
class OpReport:
    """What became of one op.

    Attributes
    ----------
    name, op
        The variable that it is bound to, and what it computes.
    placed
        The target that got it, or "host".
    region
        The id of its region; None on the host.
    claims
        For each target that claims it, what claims it: the rule of its op, or patterns.
    declines
        For each target that does not, why.
    lost
        For each target that claims it and did not get it, to whom it was lost, and why.
    costs
        What the op costs by itself, in seconds, on the host and on each target that claims it alone; empty
        unless the policy goes by costs. The placement also counts launches, and what it takes to move values.
    """

    name: str
    op: str
    placed: str
    region: int | None
    claims: dict[str, tuple[str, ...]]
    declines: dict[str, str]
    lost: dict[str, str] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegionReport:
    """One region: its target, and the names of its ops, inputs, outputs and composites."""

    id: int
    target: str
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    composites: tuple[str, ...]


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
        """One line a target, then one for the host."""
        claimed = Counter(target for op in self.ops for target in op.claims)
        won = Counter(op.placed for op in self.ops)
        regions = Counter(region.target for region in self.regions)
        for target in dict.fromkeys((*claimed, *regions, *self.unavailable)):
            yield words_for_counts(
                target,
                ops=won[target],
                total=len(self.ops),
                regions=regions[target],
                claimed=claimed[target],
                unavailable=self.unavailable.get(target),
            )
        yield words_for_host((op.op, op.declines) for op in self.ops if op.placed == HOST)
        for each in self.apart[:_APART_SHOWN]:
            yield words_for_neighbours(each.target, each.left, each.right, each.between)
        if len(self.apart) > _APART_SHOWN:
            yield f"and {len(self.apart) - _APART_SHOWN} more pairs of regions are kept apart"


@dataclass(frozen=True, slots=True)
class Report:
    """What a pipeline did with a module, and why.

    Attributes
    ----------
    functions
        One report a function, in order of their names.
    """

    functions: tuple[FunctionReport, ...] = field(default=())

    def __str__(self) -> str:
        lines = []
        for function in self.functions:
            lines += [f"{function.name}:"] if len(self.functions) > 1 else []
            lines += list(function.summary())
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data: dicts, lists, strings, numbers."""
        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        plain = {**self._totals(), "functions": [_plain(function) for function in self.functions]}
        return json.dumps(plain, indent=indent)

    def diff(self, other: Report) -> ReportDiff:
        """What is different in `other`: the ops that moved or are claimed by others, and counts of regions.

        Examples
        --------
        >>> print(ar.explain(mod, ["dnnl"]).diff(ar.explain(mod, ["tensorrt", "dnnl"])))  # doctest: +SKIP
        """
        return difference(self, other)

    def draw(self, path: str | Path) -> Path:
        """Draw the report into a file, which needs nothing but itself to be looked at.

        Parameters
        ----------
        path
            Where to; ``.svg`` shows the quotient graph of each function, ``.html`` that, every op, and why.

        Raises
        ------
        DrawingError
            The ending is another one, or the layout engine is not installed.
        """
        return draw(self, Path(path))

    def _totals(self) -> dict[str, float]:
        """Cost, lower bound and gap over all functions, where a policy says them."""
        priced = [function.resolution for function in self.functions if "cost" in function.resolution]
        if not priced:
            return {}
        cost = math.fsum(each["cost"] for each in priced)
        bound = math.fsum(each["lower_bound"] for each in priced)
        gap = 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)
        return {"cost": cost, "lower_bound": bound, "gap": gap}


def _plain(function: FunctionReport) -> dict[str, Any]:
    return {
        "name": function.name,
        "ops": [
            {
                "name": op.name,
                "op": op.op,
                "placed": op.placed,
                "region": op.region,
                "claims": op.claims,
                "declines": op.declines,
                "lost": op.lost,
                "costs": op.costs,
            }
            for op in function.ops
        ],
        "regions": [
            {
                "id": region.id,
                "target": region.target,
                "ops": region.ops,
                "inputs": region.inputs,
                "outputs": region.outputs,
                "composites": region.composites,
            }
            for region in function.regions
        ],
        "values": [
            {
                "name": value.name,
                "producer": value.producer,
                "consumers": value.consumers,
                "result": value.result,
                "bytes": value.bytes,
            }
            for value in function.values
        ],
        "unavailable": function.unavailable,
        "apart": [
            {"target": each.target, "left": each.left, "right": each.right, "between": each.between}
            for each in function.apart
        ],
        "dissolved": [each._asdict() for each in function.dissolved],
        **function.resolution,
    }
