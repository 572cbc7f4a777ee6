"""``explain``: which target gets which op, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from annotated_region.command_line.models import read_model
from annotated_region.command_line.placement import explained
from annotated_region.command_line.terminal import page_width
from annotated_region.findings.function_report import FunctionReport
from annotated_region.printable import printable
from annotated_region.reports.report import Report
from annotated_region.reports.report_tables import host_table, op_table, region_table, sums_table

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Do it; the exit code."""
    report = explained(read_model(options.model, options.limits), options)
    if options.json:
        print(report.to_json(indent=2))
    else:
        _show(report, options.ops)
    return 0


def _show(report: Report, every_op: bool) -> None:
    width = page_width()
    for function in report.functions:
        for table in _tables(function, every_op, width):
            print(f"{table}\n")
        for line in (*function.target_lines(), *function.further_lines()):
            print(printable(line))


def _tables(function: FunctionReport, every_op: bool, width: int) -> Iterator[str]:
    yield sums_table(function, width)
    if function.regions:
        yield region_table(function, width)
    yield from host_table(function, width)
    if every_op:
        yield op_table(function, width)
