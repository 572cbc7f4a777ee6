"""Reports: which target got what, and why, as text and as data."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotated_region.costs.model import HOST
from annotated_region.drawing import draw
from annotated_region.findings.function_report import FunctionReport, told_origin
from annotated_region.findings.wording import words_for_headline
from annotated_region.reports.report_diff import ReportDiff, difference

__all__ = ["Report"]


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

    def details(self) -> str:
        """A line for each op: name, op, types, work, place, and who claims or declines it for what reason."""
        lines = []
        for function in self.functions:
            lines += [f"{function.name}:"] if len(self.functions) > 1 else []
            lines += list(function.details())
        return "\n".join(lines)

    def headline(self) -> str:
        """One line: the ops on each target, those on the host, and why the first of these is there."""
        ops = [op for function in self.functions for op in function.ops]
        targets = dict.fromkeys(
            target
            for function in self.functions
            for target in (*(target for op in function.ops for target in op.claims), *function.unavailable)
        )
        placed = {target: sum(op.placed == target for op in ops) for target in targets}
        left = next((op for op in ops if op.placed == HOST), None)
        first = None if left is None else (left.op, told_origin(left), left.declines, left.lost)
        return words_for_headline(placed, len(ops), first)

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
        return draw(self.functions, str(self), Path(path))

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
                "origin": op.origin,
                "key": op.key,
                "inputs": op.inputs,
                "output": op.output,
                "flops": op.flops,
                "bytes": op.bytes,
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
