"""What ``partition`` takes: where to write, and the lock."""

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
        help="where to write it: a library (.so) that TVM's runtime loads, TVMScript (.py) to "
        "read, in which large constants are only named, or a folder (a name without an ending) that runs on "
        "another machine without Python",
    )
    complete_files(output)
    _add_lock_arguments(parser)
    parser.add_argument(
        "--names",
        choices=("places", "numbers"),
        default="places",
        help="name external functions after the path in the model that their ops have in common, such as "
        "dnnl_layer3_attention, or by numbers (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the external functions as JSON")
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="do not close with a line on what each target got, and why not more",
    )


def _add_lock_arguments(parser: argparse.ArgumentParser) -> None:
    """The file of the lock, and whether it may change."""
    lock = parser.add_argument(
        "--lock",
        type=path,
        metavar="FILE",
        help="a text that says who runs what; if it is there, what the model still has stays where it was, "
        "and the file is brought up to date; if not, it is written",
    )
    complete_files(lock)
    parser.add_argument(
        "--check",
        action="store_true",
        help="with --lock: leave the file as it is, and fail with the difference if the result is another",
    )


COMMAND = Command(
    name="partition",
    help="cut a model into external functions, and write it as TVMScript, as a library or as a folder",
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
