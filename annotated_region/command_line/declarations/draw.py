"""What ``draw`` takes."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import add_placement_arguments
from annotated_region.command_line.options import complete_files, path

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser, also="; or what check --json or explain --json printed (.json)")
    output = parser.add_argument(
        "-o",
        "--output",
        type=path,
        required=True,
        help="where to: a file ending in .svg, .html or .json (Model Explorer)",
    )
    complete_files(output)
    profile = parser.add_argument(
        "--profile",
        type=path,
        metavar="FILE",
        help="what bench --by-region --json printed of the same model: regions get the colour of their time",
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
