"""``advise``: which decline of a target, if it were granted, would change the placement most."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.table import Table

from annotated_region.advising.advice import Advice
from annotated_region.advising.advise import advise
from annotated_region.command_line.command import Command, console, plain
from annotated_region.command_line.models import read_model
from annotated_region.command_line.options import add_limits_argument, complete_files, count, file_name
from annotated_region.command_line.placement import add_policy_arguments, policy_of
from annotated_region.documents import written_document

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument(
        "models",
        nargs="+",
        type=file_name,
        metavar="model",
        help="files of ONNX (.onnx) or torch.export (.pt2), or Relax as TVMScript (.py)",
    )
    complete_files(models)
    add_limits_argument(parser)
    add_policy_arguments(parser)
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="how much advice to give (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print the advice as JSON")


def _run(options: argparse.Namespace) -> int:
    mods = [read_model(model, options.limits) for model in options.models]
    advice = advise(mods, options.targets, policy_of(options))[: options.top]
    if options.json:
        print(written_document("advice", {"advice": [asdict(each) for each in advice]}, indent=2))
    else:
        console().print(_table(advice))
    return 0


def _table(advice: list[Advice]) -> Table:
    table = Table(title="If the target claimed it", title_justify="left")
    for column in ("target", "op", "count", "why not", "regions", "host ops", "crossings", "us saved"):
        table.add_column(column, overflow="fold")
    for each in advice:
        numbers = (
            f"{each.regions_before} -> {each.regions_after}",
            f"{each.host_before} -> {each.host_after}",
            f"{each.crossings_before} -> {each.crossings_after}",
            f"{each.seconds_saved * 1e6:.3g}",
        )
        name = each.op.removeprefix("relax.")
        table.add_row(*map(plain, (each.target, name, str(len(each.ops)), each.reason, *numbers)))
    return table


COMMAND = Command(
    name="advise",
    help="say which decline of a target, if it were granted, would change the placement most",
    examples=(
        "advise model.onnx --targets dnnl",
        "advise zoo/*.onnx --targets onnxruntime,dnnl --policy least-cost --json",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
