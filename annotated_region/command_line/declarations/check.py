"""The arguments of ``check``: tolerances, the reference, and where to save a reproducer."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import (
    add_code_generator_arguments,
    add_input_arguments,
    add_placement_arguments,
)
from annotated_region.command_line.declarations.quantizing import add_quantization_arguments
from annotated_region.command_line.options import path, share

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    add_code_generator_arguments(parser)
    add_input_arguments(parser)
    add_quantization_arguments(parser)
    parser.add_argument("--rtol", type=share, metavar="X", help="relative tolerance, as in numpy.allclose")
    parser.add_argument("--atol", type=share, metavar="X", help="absolute tolerance")
    parser.add_argument(
        "--reference",
        default="host",
        metavar="TARGET",
        help="the reference: host, which is TVM (default), or another target",
    )
    parser.add_argument(
        "--no-bisect",
        dest="bisect",
        action="store_false",
        help="find the wrong regions only, not the ops",
    )
    parser.add_argument(
        "--save",
        type=path,
        metavar="FOLDER",
        help="write a reproducer of the first fault to a new folder: module, inputs, both results, scripts",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


COMMAND = Command(
    name="check",
    help="run each region on its target and on the host, and find the ops that are wrong",
    examples=(
        "check model.onnx --targets dnnl",
        "check model.onnx --targets dnnl --inputs x.npz --option dnnl.precision=bf16 --json",
        "check model.onnx --targets onnxruntime --extent batch=2 --save fault",
        "check model.onnx --targets dnnl --quantize images.npz",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.check",
)
