"""The arguments of ``advise``."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import add_policy_arguments
from annotated_region.command_line.options import (
    KINDS_OF_MODELS,
    add_limits_argument,
    complete_files,
    count,
    file_name,
)

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument(
        "models",
        nargs="+",
        type=file_name,
        metavar="model",
        help=f"files of {KINDS_OF_MODELS}",
    )
    complete_files(models)
    add_limits_argument(parser)
    add_policy_arguments(parser)
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="how much advice to give (default: 10)"
    )
    parser.add_argument(
        "--measure",
        type=count,
        metavar="N",
        help="build and time whole models for the N changes with the best estimates "
        "(default: 8 with --cost measured, otherwise 0)",
    )
    parser.add_argument("--json", action="store_true", help="print the advice as JSON")


COMMAND = Command(
    name="advise",
    help="find the declined ops whose claims would improve the placement most",
    examples=(
        "advise model.onnx --targets dnnl",
        "advise model.onnx --targets dnnl --measure 4",
        "advise zoo/*.onnx --targets onnxruntime,dnnl --policy least-cost --json",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.advise",
)
