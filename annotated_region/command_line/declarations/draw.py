"""The arguments of ``draw``."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import add_placement_arguments
from annotated_region.command_line.options import complete_files, path

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser, also="; or the output of check --json or explain --json (.json)")
    output = parser.add_argument(
        "-o",
        "--output",
        type=path,
        required=True,
        help="the output file, with the extension .svg, .html or .json (Model Explorer)",
    )
    complete_files(output)
    profile = parser.add_argument(
        "--profile",
        type=path,
        metavar="FILE",
        help="the output of bench --by-region --json for the same model: regions are coloured by time",
    )
    complete_files(profile)


COMMAND = Command(
    name="draw",
    help="draw the regions of a model, with the bytes that cross between them",
    examples=(
        "draw resnet50.onnx --targets dnnl -o resnet50.html",
        "draw resnet50.onnx --targets tensorrt,dnnl --cross-compile -o resnet50.svg",
        "draw resnet50.onnx --targets dnnl --profile times.json -o time.html",
        "draw check.json -o check.html",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.draw",
)
