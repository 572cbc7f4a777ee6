"""``check``: finds the regions of a model that are wrong on their targets, and the ops that cause it."""

from __future__ import annotations

import argparse

import numpy as np
from rich.table import Table

from annotated_region.checking.check import check
from annotated_region.checking.check_report import CheckReport
from annotated_region.command_line.availability import require_available, tell_remarks
from annotated_region.command_line.placement import generator_options, policy_of
from annotated_region.command_line.quantizing import model_of
from annotated_region.command_line.terminal import console, plain
from annotated_region.errors import InputError, ReproducerError
from annotated_region.inputs import read_arrays

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    require_available(options.targets)
    if options.cross_compile:
        raise InputError("check runs every region here; omit --cross-compile")
    if options.save is not None and options.save.exists():
        raise ReproducerError(f"{options.save} already exists and is not overwritten; choose a new folder")
    tell_remarks(options)
    given = None if options.inputs is None else read_arrays(options.inputs)
    report = _checked(options, given)
    if options.json:
        print(report.to_json(indent=2))
    else:
        console().print(_table(report))
        console().print(plain(str(report)), soft_wrap=True)
    if options.save is not None and not report.ok:
        report.save_reproducer(options.save)
    return 0 if report.ok else 1


def _checked(options: argparse.Namespace, given: dict[str, np.ndarray] | None) -> CheckReport:
    return check(
        model_of(options),
        options.targets,
        policy_of(options),
        given,
        options.rtol,
        options.atol,
        options.reference,
        prepare=options.prepare,
        pins=dict(options.pin),
        bans=dict(options.ban),
        min_work=dict(options.min_work),
        options=generator_options(options),
        extents=dict(options.extent),
        bisect=options.bisect,
    )


def _table(report: CheckReport) -> Table:
    table = Table(title="Regions", title_justify="left")
    for column in ("region", "target", "ops", "largest error", "of the largest value", "cosine", "where", ""):
        table.add_column(column, justify="left" if column in ("region", "target", "where", "") else "right")
    for region in report.regions:
        cosine = min((result.cosine for result in region.results), default=1.0)
        where = "" if region.where is None else ", ".join(map(str, region.where))
        verdict = "not run" if not region.calls else "ok" if region.ok else "WRONG"
        numbers = (f"{region.absolute:.3g}", f"{region.relative:.2g}", f"{cosine:.6f}")
        table.add_row(
            *map(plain, (region.symbol, region.target, str(len(region.ops)), *numbers, where, verdict))
        )
    return table
