"""The arguments of ``extract``."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.options import (
    KINDS_OF_MODELS,
    add_limits_argument,
    complete_files,
    count,
    file_name,
    path,
)

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument(
        "models", nargs="+", type=file_name, metavar="model", help=f"files of {KINDS_OF_MODELS}"
    )
    complete_files(models)
    add_limits_argument(parser)
    parser.add_argument(
        "--top", type=count, default=15, metavar="N", help="the number of functions to list (default: 15)"
    )
    parser.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="the number of processes (default: 1)"
    )
    parser.add_argument(
        "--no-prepare",
        dest="prepare",
        action="store_false",
        help="do not prepare the modules for inference",
    )
    parser.add_argument("--json", action="store_true", help="print the statistics as JSON")
    output = parser.add_argument(
        "-o", "--output", type=path, help="also write the statistics as JSON to this file"
    )
    complete_files(output)


COMMAND = Command(
    name="extract",
    help="count the distinct fused functions of models, and those that models share",
    examples=("extract *.onnx", "extract zoo/*.onnx --jobs 4 --json > zoo.json"),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.extract",
)
