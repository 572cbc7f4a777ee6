"""``explain``: the target of each op, and the reasons."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import tvm

from annotated_region.advising.advise import first_advice
from annotated_region.command_line.placement import explained, policy_of
from annotated_region.command_line.quantizing import model_of
from annotated_region.command_line.terminal import page_width
from annotated_region.findings.function_report import FunctionReport
from annotated_region.printable import printable
from annotated_region.reports.report import Report
from annotated_region.reports.report_tables import host_table, op_table, region_table, sums_table

__all__ = ["run"]

# Advice runs the passes again for each change; up to this size that takes less than a second.
_MOST_OPS = 400


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    mod = model_of(options)
    report = explained(mod, options)
    if options.json:
        print(report.to_json(indent=2))
    else:
        _show(report, options.ops)
        if options.advice and not _is_constrained(options):
            print(printable(_advice(mod, report, options)), end="")
    return 0


def _show(report: Report, every_op: bool) -> None:
    width = page_width()
    for function in report.functions:
        for table in _tables(function, every_op, width):
            print(f"{table}\n")
        for line in (*function.target_lines(), *function.further_lines()):
            print(printable(line))
    for line in report.remark_lines():
        print(printable(line))


def _is_constrained(options: argparse.Namespace) -> bool:
    """Whether the arguments constrain the placement in a way that advice ignores."""
    return bool(options.pin or options.ban or options.min_work or options.cross_compile)


def _advice(mod: tvm.IRModule, report: Report, options: argparse.Namespace) -> str:
    """The best advice as one line; empty if none would improve the placement."""
    ops = sum(len(function.ops) for function in report.functions)
    if ops > _MOST_OPS:
        return f"advice: none for {ops} ops, because it would take long; run annotated-region advise\n"
    first = first_advice(mod, options.targets, policy_of(options), prepare=options.prepare)
    return "" if first is None else f"advice: {first}\n"


def _tables(function: FunctionReport, every_op: bool, width: int) -> Iterator[str]:
    yield sums_table(function, width)
    if function.regions:
        yield region_table(function, width)
    yield from host_table(function, width)
    if every_op:
        yield op_table(function, width)
