"""``explain``: which target gets which op, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.table import Table

from annotated_region.command_line.command import Command, console, plain
from annotated_region.command_line.models import read_model
from annotated_region.command_line.placement import add_placement_arguments, explained
from annotated_region.findings.function_report import FunctionReport, OpReport
from annotated_region.reports.report import Report

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    parser.add_argument("--ops", action="store_true", help="show every op, not the summary alone")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _run(options: argparse.Namespace) -> int:
    report = explained(read_model(options.model, options.limits), options)
    if options.json:
        print(report.to_json(indent=2))
    else:
        _show(report, options.ops)
    return 0


def _show(report: Report, every_op: bool) -> None:
    output = console()
    for function in report.functions:
        output.print(_regions_table(function))
        if every_op:
            output.print(_ops_table(function))
    output.print(plain(str(report)), soft_wrap=True)


def _regions_table(function: FunctionReport) -> Table:
    table = Table(title=f"Regions of {function.name}", title_justify="left")
    for column in ("region", "target", "ops", "inputs", "outputs", "composites"):
        table.add_column(column, justify="right" if column in ("region", "ops") else "left")
    for region in function.regions:
        composites = ", ".join(_counted(region.composites))
        inputs, outputs = str(len(region.inputs)), ", ".join(region.outputs)
        table.add_row(
            *map(plain, (str(region.id), region.target, str(len(region.ops)), inputs, outputs, composites))
        )
    return table


def _counted(names: tuple[str, ...]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        count = names.count(name)
        yield f"{name} x{count}" if count > 1 else name


def _ops_table(function: FunctionReport) -> Table:
    table = Table(title=f"Ops of {function.name}", title_justify="left")
    for column in ("name", "from", "op", "types", "work", "placed", "claimed by", "lost by", "declined by"):
        table.add_column(column, overflow="fold")
    for op in function.ops:
        table.add_row(*map(plain, _cells(op)))
    return table


def _cells(op: OpReport) -> tuple[str, ...]:
    placed = op.placed if op.region is None else f"{op.placed}, region {op.region}"
    claims = "; ".join(f"{target}: {', '.join(by)}" for target, by in op.claims.items())
    lost = "; ".join(f"{target} {why}" for target, why in op.lost.items())
    declines = "; ".join(f"{target}: {reason}" for target, reason in op.declines.items())
    name = op.op.removeprefix("relax.")
    claims = claims.replace("relax.", "")
    return op.name, op.origin, name, op.types, op.work, placed, claims, lost, declines


COMMAND = Command(
    name="explain",
    help="say which target gets which op of a model, and why the rest stays",
    examples=(
        "explain resnet50.onnx --targets dnnl",
        "explain resnet50.onnx --targets tensorrt,dnnl --policy least-cost --ops",
        "explain resnet50.onnx --targets dnnl --json > report.json",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
