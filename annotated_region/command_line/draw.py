"""``draw``: the regions of a model as a picture, or as a page with every op and why."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.models import read_model
from annotated_region.command_line.options import (
    complete_files,
    path,
    tell_unavailable,
)
from annotated_region.command_line.placement import add_placement_arguments, explained
from annotated_region.errors import DrawingError
from annotated_region.printable import printable

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    output = parser.add_argument(
        "-o", "--output", type=path, required=True, help="where to: a file ending in .svg or .html"
    )
    complete_files(output)


def _run(options: argparse.Namespace) -> int:
    if options.output.suffix.lower() not in (".svg", ".html"):
        raise DrawingError(f"{options.output} ends neither in .svg nor in .html")
    report = explained(read_model(options.model, options.limits), options)
    tell_unavailable(options)
    print(printable(str(report.draw(options.output))))
    return 0


COMMAND = Command(
    name="draw",
    help="draw the regions of a model, with the bytes that cross between them",
    examples=(
        "draw resnet50.onnx --targets dnnl -o resnet50.html",
        "draw resnet50.onnx --targets tensorrt,dnnl --cross-compile -o resnet50.svg",
    ),
    add_arguments=_add_arguments,
    run=_run,
)
