"""The arguments of ``bench``."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import (
    add_code_generator_arguments,
    add_input_arguments,
    add_placement_arguments,
)
from annotated_region.command_line.declarations.quantizing import add_quantization_arguments
from annotated_region.command_line.options import count

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    add_code_generator_arguments(parser)
    add_input_arguments(parser)
    add_quantization_arguments(parser)
    parser.add_argument(
        "--rounds", type=count, default=10, metavar="N", help="the runs of each engine (default: 10)"
    )
    parser.add_argument("--host", action="store_true", help="also TVM alone, which may take minutes")
    parser.add_argument(
        "--by-region",
        action="store_true",
        help="also print the time of regions, the steps inside them, and host ops",
    )
    parser.add_argument("--json", action="store_true", help="print the times as JSON")


COMMAND = Command(
    name="bench",
    help="measure a partitioned model, beside ONNX Runtime and TVM alone",
    examples=(
        "bench resnet50.onnx --targets dnnl",
        "bench resnet50.onnx --targets dnnl --host --rounds 5 --json",
        "bench resnet50.onnx --targets dnnl --by-region",
        "bench bert.onnx --targets dnnl --inputs x.npz",
        "bench resnet50.onnx --targets dnnl --quantize images.npz",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.bench",
)
