"""The arguments of quantization."""

from __future__ import annotations

import argparse

from annotated_region.command_line.options import complete_files, path, share
from annotated_region.quantizing.method_names import RANGES

__all__ = ["add_quantization_arguments"]


def add_quantization_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the calibration inputs, and the accuracy to keep."""
    inputs = parser.add_argument(
        "--quantize",
        type=path,
        metavar="FILE",
        help="quantize the model to int8 first; an .npz file has an array for each parameter, by name, "
        "with the calibration inputs one after the other along its first axis",
    )
    complete_files(inputs)
    parser.add_argument(
        "--ranges",
        choices=list(RANGES),
        default="minmax",
        help="with --quantize: the calibration method (default: %(default)s)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="OP",
        help="with --quantize: a convolution or product that stays in float, by the name of its binding, of "
        "the node it comes from, or of an op; may be given several times",
    )
    parser.add_argument(
        "--accuracy",
        type=share,
        metavar="X",
        help="with --quantize: keep as many products in float as needed for an error of the result below "
        "this fraction of the result, such as 0.05",
    )
