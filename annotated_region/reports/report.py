"""Reports: the placement of each op with its reasons, as text and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotated_region.checked import checked
from annotated_region.costs.model import HOST
from annotated_region.documents import read_document, written_document
from annotated_region.errors import UsageError
from annotated_region.findings.function_report import FunctionReport
from annotated_region.findings.host_ops import host_groups, words_for_group
from annotated_region.findings.wording import words_for_headline
from annotated_region.locking.lock import Lock
from annotated_region.reports.json_form import plain_placement, read_placement
from annotated_region.reports.locked_ids import locked_function
from annotated_region.reports.report_diff import ReportDiff, difference
from annotated_region.reports.report_tables import tables_of
from annotated_region.reports.text_table import NARROWEST

__all__ = ["Report"]

_KIND = "report"


@dataclass(frozen=True, slots=True)
class Report:
    """The placement of a module, with reasons.

    Attributes
    ----------
    functions
        One report per function, sorted by name.
    targets
        The requested targets, in the order of preference, each with the version of its library; ``"-"``
        for a target without a library.
    remarks
        By target, the options given to `explain` that this machine does not support, as clauses.
    """

    functions: tuple[FunctionReport, ...] = field(default=())
    targets: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = []
        for function in self.functions:
            lines += [f"{function.name}:"] if len(self.functions) > 1 else []
            lines += list(function.summary())
        lines += self.remark_lines()
        return "\n".join(lines)

    def remark_lines(self) -> list[str]:
        """One line per remark."""
        return [f"{target}: {remark}" for target, remarks in self.remarks.items() for remark in remarks]

    def details(self) -> str:
        """One line per op: name, op, types, work, place, and the claims and declines of targets
        with reasons.
        """
        lines = []
        for function in self.functions:
            lines += [f"{function.name}:"] if len(self.functions) > 1 else []
            lines += list(function.details())
        return "\n".join(lines)

    @checked
    def table(self, width: int = 100) -> str:
        """Tables of a given width: the sums by target, the host ops, and one line per op.

        Parameters
        ----------
        width
            In characters; at least 60. Cells have several lines where necessary.

        Raises
        ------
        UsageError
            The width is not an integer of at least 60.
        """
        if not isinstance(width, int) or width < NARROWEST:
            raise UsageError(f"the width of a table is {width!r}; pass an integer of at least {NARROWEST}")
        return "\n\n".join(table for function in self.functions for table in tables_of(function, width))

    def headline(self) -> str:
        """One line: the number of ops on each target and on the host, and the reason of the first host op."""
        ops = [op for function in self.functions for op in function.ops]
        targets = dict.fromkeys(
            target
            for function in self.functions
            for target in (*(target for op in function.ops for target in op.claims), *function.unavailable)
        )
        placed = {target: sum(op.placed == target for op in ops) for target in targets}
        left = next((op for op in ops if op.placed == HOST), None)
        first = "" if left is None else words_for_group(*host_groups([left]))
        return words_for_headline(placed, len(ops), first)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data: dicts, lists, strings, numbers."""
        plain: dict[str, Any] = json.loads(self.to_json())
        return plain

    @checked
    def to_json(self, indent: int | None = None) -> str:
        """The report as JSON."""
        placement = plain_placement(self.functions, self.targets)
        remarks = {"remarks": self.remarks} if self.remarks else {}
        return written_document(_KIND, {**self._totals(), **placement, **remarks}, indent)

    @staticmethod
    @checked
    def from_json(text: str) -> Report:
        """Parse the output of `to_json`; the text may be untrusted.

        Details of the policy are returned in JSON types: tuples become lists.

        Raises
        ------
        DocumentError
            The text is not a report, or is inconsistent; the message has the location.
        UsageError
            The argument is not a string.
        """
        document = read_document(text, _KIND)
        named = document.field("remarks").named() if document.has("remarks") else ()
        return Report(*read_placement(document), {target: remarks.texts() for target, remarks in named})

    def to_lock(self) -> Lock:
        """The placement as a lock that ``ar.partition(..., lock=...)`` replays; see ``docs/locks.md``."""
        return Lock(dict(self.targets), tuple(locked_function(function) for function in self.functions))

    @checked
    def diff(self, other: Report) -> ReportDiff:
        """The differences of `other`: ops with other places or claims, and numbers of regions.

        Examples
        --------
        >>> print(ar.explain(mod, ["dnnl"]).diff(ar.explain(mod, ["tensorrt", "dnnl"])))  # doctest: +SKIP
        """
        return difference(self.functions, other.functions)

    @checked
    def draw(self, path: str | Path) -> Path:
        """Draw the report to a self-contained file.

        Parameters
        ----------
        path
            The path of the file. ``.svg`` has the quotient graph of each function; ``.html`` can also be
            searched, and has every op with its reasons; ``.json`` has the graphs for Model Explorer.

        Raises
        ------
        DrawingError
            The file has another extension, or the layout engine is not installed.
        """
        from annotated_region.drawing import draw  # noqa: PLC0415 - it loads networkx, which is slow

        return draw(self.functions, str(self), Path(path))

    def _totals(self) -> dict[str, float]:
        """Cost, lower bound and gap over all functions, if the policy reports them."""
        priced = [function.resolution for function in self.functions if "cost" in function.resolution]
        if not priced:
            return {}
        cost = math.fsum(each["cost"] for each in priced)
        bound = math.fsum(each["lower_bound"] for each in priced)
        gap = 0.0 if cost <= 0 else max(0.0, (cost - bound) / cost)
        return {"cost": cost, "lower_bound": bound, "gap": gap}
