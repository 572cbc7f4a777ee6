"""Reports: which target got what, and why, as text and as data."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm import relax

from annotated_region.dataflow.graph import NodeKind
from annotated_region.drawing import draw
from annotated_region.regions.networks import op_name_of
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.reports.record import Apart, FunctionRecord, Record
from annotated_region.reports.report_diff import ReportDiff, difference
from annotated_region.reports.value_flow import ValueReport, values_of

__all__ = ["FunctionReport", "OpReport", "RegionReport", "Report"]

HOST = "host"
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
class FunctionReport:
    """One function: its ops in program order, its regions, what the passes noted, and its values."""

    name: str
    ops: tuple[OpReport, ...]
    regions: tuple[RegionReport, ...]
    unavailable: dict[str, str]
    apart: tuple[Apart, ...]
    dissolved: tuple[tuple[str, tuple[str, ...], str], ...]
    resolution: dict[str, Any]
    values: tuple[ValueReport, ...] = ()

    def summary(self) -> Iterator[str]:
        """One line a target, then one for the host."""
        total = len(self.ops)
        claimed = Counter(target for op in self.ops for target in op.claims)
        for target in dict.fromkeys(
            (*claimed, *(region.target for region in self.regions), *self.unavailable)
        ):
            won = sum(op.placed == target for op in self.ops)
            regions = sum(region.target == target for region in self.regions)
            line = f"{target}: {won} of {total} ops in {regions} region{'s' if regions != 1 else ''}"
            if target in self.unavailable:
                line += f" (claims {claimed[target]}, but cannot run here: {self.unavailable[target]})"
            yield line
        yield f"{HOST}: {self._host_line()}"
        for each in self.apart[:_APART_SHOWN]:
            why = (
                f"{each.between} stands between them"
                if each.between
                else "the limits on regions keep them apart"
            )
            yield f"{each.target}: the regions of {each.left} and {each.right} are two, because {why}"
        if len(self.apart) > _APART_SHOWN:
            yield f"and {len(self.apart) - _APART_SHOWN} more pairs of regions are kept apart"

    def _host_line(self) -> str:
        reasons: dict[tuple[str, str], int] = {}
        for op in self.ops:
            if op.placed == HOST:
                why = "; ".join(f"declined by {target}: {reason}" for target, reason in op.declines.items())
                key = (op.op.removeprefix("relax."), why or "claimed, but not placed")
                reasons[key] = reasons.get(key, 0) + 1
        if not reasons:
            return "nothing"
        return ", ".join(
            f"{name}{f' x{count}' if count > 1 else ''} ({why})" for (name, why), count in reasons.items()
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What a pipeline did with a module, and why.

    Attributes
    ----------
    functions
        One report a function, in order of their names.
    """

    functions: tuple[FunctionReport, ...] = field(default=())

    @staticmethod
    def of(record: Record, placed: Iterable[AnnotatedRegionSet]) -> Report:
        """The report of a run: what the passes recorded, and the regions that they left."""
        return Report(
            tuple(_function_report(regions, record.function(regions.dataflow.name)) for regions in placed)
        )

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


def _function_report(regions: AnnotatedRegionSet, record: FunctionRecord) -> FunctionReport:
    plain = regions.plain()
    graph = plain.dataflow
    ops = []
    positions: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        if node.kind in (NodeKind.LITERAL, NodeKind.STRUCTURE):
            continue
        positions[number] = len(positions)
        held = plain.regions_of(node.var)
        claims = {target: tuple(by) for target, by in record.claims.get(node.var, {}).items()}
        placed = held[0].target if held else HOST
        costs = dict(record.costs.get(node.var, {}))
        ops.append(
            OpReport(
                node.var.name,
                op_name_of(node.value),
                placed,
                held[0].id if held else None,
                claims,
                dict(record.declines.get(node.var, {})),
                {target: _lost(target, placed, node.var, record) for target in claims if target != placed},
                costs,
            )
        )
    return FunctionReport(
        graph.name,
        tuple(ops),
        tuple(_region_report(plain, region.id) for region in plain),
        dict(record.unavailable),
        tuple(record.apart),
        tuple(record.dissolved),
        dict(record.resolution),
        values_of(graph, positions),
    )


def _lost(target: str, placed: str, var: relax.Var, record: FunctionRecord) -> str:
    """Why a target did not get what it claims."""
    to = "to the host" if placed == HOST else f"to {placed}"
    if target in record.unavailable:
        return f"{to}: it cannot run here"
    for dissolved, names, reason in record.dissolved:
        if dissolved == target and var.name in names:
            return f"{to}: its region had {reason}" if reason.startswith("less") else f"{to}: {reason}"
    costs = record.costs.get(var, {})
    if target in costs and placed in costs:
        return f"{to}: alone it takes {_seconds(costs[placed])} there, {_seconds(costs[target])} on {target}"
    if record.resolution.get("cost") is not None:
        return f"{to}: cheaper as a part of a larger unit"
    return to if placed == HOST else f"{to}, which comes first"


def _seconds(seconds: float) -> str:
    """A time as people write it."""
    scaled = seconds * 1e6
    for unit in ("us", "ms"):
        if scaled < 1000:
            return f"{scaled:.3g} {unit}"
        scaled /= 1000
    return f"{scaled:.3g} s"


def _region_report(regions: AnnotatedRegionSet, number: int) -> RegionReport:
    region = regions[number]
    return RegionReport(
        region.id,
        region.target,
        tuple(var.name for var in region.nodes),
        tuple(var.name for var in region.inputs),
        tuple(var.name for var in region.outputs),
        tuple(composite.name for composite in region.composites),
    )


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
        "dissolved": [
            {"target": target, "ops": ops, "reason": reason} for target, ops, reason in function.dissolved
        ],
        **function.resolution,
    }
