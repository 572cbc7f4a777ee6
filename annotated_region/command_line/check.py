"""``check``: which region of a model is wrong on its target, and which of its ops are to blame."""

from __future__ import annotations

import argparse

import numpy as np
from rich.table import Table

from annotated_region.checking.check import check
from annotated_region.checking.check_report import CheckReport
from annotated_region.command_line.command import Command, console, plain
from annotated_region.command_line.models import read_model
from annotated_region.command_line.options import path, require_available
from annotated_region.command_line.placement import (
    add_code_generator_arguments,
    add_input_arguments,
    add_placement_arguments,
    generator_options,
    policy_of,
)
from annotated_region.errors import InputError, ReproducerError
from annotated_region.inputs import read_arrays

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    add_code_generator_arguments(parser)
    add_input_arguments(parser)
    parser.add_argument(
        "--rtol", type=_share, metavar="X", help="relative tolerance, as numpy.allclose has it"
    )
    parser.add_argument("--atol", type=_share, metavar="X", help="absolute tolerance")
    parser.add_argument(
        "--reference",
        default="host",
        metavar="TARGET",
        help="what computes the right answers: host, which is TVM (default), or another target",
    )
    parser.add_argument(
        "--no-bisect",
        dest="bisect",
        action="store_false",
        help="say which regions are wrong, do not look for the ops",
    )
    parser.add_argument(
        "--save",
        type=path,
        metavar="FOLDER",
        help="write what shows the first fault into a new folder: module, inputs, both answers, scripts",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _run(options: argparse.Namespace) -> int:
    require_available(options.targets)
    if options.cross_compile:
        raise InputError("check runs every region here; leave out --cross-compile")
    if options.save is not None and options.save.exists():
        raise ReproducerError(f"{options.save} is there already, and is not overwritten; name a new folder")
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
        read_model(options.model, options.limits),
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


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return share


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


COMMAND = Command(
    name="check",
    help="run each region on its target and on the host, and find the ops that are wrong",
    examples=(
        "check model.onnx --targets dnnl",
        "check model.onnx --targets dnnl --inputs x.npz --option dnnl.precision=bf16 --json",
        "check model.onnx --targets onnxruntime --extent batch=2 --save fault",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
