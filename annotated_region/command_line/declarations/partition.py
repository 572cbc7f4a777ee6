"""The arguments of ``partition``: the output, and the lock."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations.placing import (
    add_code_generator_arguments,
    add_placement_arguments,
)
from annotated_region.command_line.declarations.quantizing import add_quantization_arguments
from annotated_region.command_line.options import complete_files, path

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_placement_arguments(parser)
    add_code_generator_arguments(parser)
    add_quantization_arguments(parser)
    output = parser.add_argument(
        "-o",
        "--output",
        type=path,
        help="the output: a library (.so) that TVM's runtime loads, TVMScript (.py) for reading, "
        "in which large constants are only named, or a folder (a name without extension) that runs on "
        "another machine without Python",
    )
    complete_files(output)
    _add_lock_arguments(parser)
    parser.add_argument(
        "--names",
        choices=("places", "numbers"),
        default="places",
        help="name external functions after the common path of their ops in the model, such as "
        "dnnl_layer3_attention, or by numbers (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the external functions as JSON")
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="show no progress, and omit the final line with the ops of each target",
    )


def _add_lock_arguments(parser: argparse.ArgumentParser) -> None:
    """The lock file, and whether it may change."""
    lock = parser.add_argument(
        "--lock",
        type=path,
        metavar="FILE",
        help="a placement as text; if the file exists, the ops that the model still has stay on their "
        "targets, and the file is updated; otherwise it is written",
    )
    complete_files(lock)
    parser.add_argument(
        "--check",
        action="store_true",
        help="with --lock: do not change the file; print the differences and fail if there are any",
    )


COMMAND = Command(
    name="partition",
    help="partition a model into external functions, and write it as TVMScript, a library or a folder",
    examples=(
        "partition resnet50.onnx --targets dnnl -o resnet50.so",
        "partition resnet50.onnx --targets dnnl -o resnet50/",
        "partition resnet50.onnx --targets tensorrt,dnnl --policy least-cost -o resnet50.py",
        "partition resnet50.onnx --targets dnnl --lock placement.lock --check",
        "partition resnet50.onnx --targets dnnl --quantize images.npz -o resnet50.so",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.partition",
)
