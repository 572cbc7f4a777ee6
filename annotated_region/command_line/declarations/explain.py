"""The arguments of ``explain``."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import (
    add_code_generator_arguments,
    add_placement_arguments,
)
from annotated_region.command_line.declarations.quantizing import add_quantization_arguments

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    add_code_generator_arguments(parser)
    add_quantization_arguments(parser)
    parser.add_argument("--ops", action="store_true", help="show every op, not only the summary")
    parser.add_argument(
        "--no-advice",
        dest="advice",
        action="store_false",
        help="omit the final advice: the declined ops whose claims would save most",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


COMMAND = Command(
    name="explain",
    help="show the target of each op of a model, and why other ops stay on the host",
    examples=(
        "explain resnet50.onnx --targets dnnl",
        "explain resnet50.onnx --targets tensorrt,dnnl --policy least-cost --ops",
        "explain resnet50.onnx --targets dnnl --json > report.json",
        "explain resnet50.onnx --targets dnnl --quantize images.npz",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.explain",
)
