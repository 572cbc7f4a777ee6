"""Arguments that ask for int8."""

from __future__ import annotations

import argparse

from annotated_region.command_line.options import complete_files, path, share
from annotated_region.quantizing.method_names import RANGES

__all__ = ["add_quantization_arguments"]


def add_quantization_arguments(parser: argparse.ArgumentParser) -> None:
    """What the model is calibrated with, and how exact it has to stay."""
    inputs = parser.add_argument(
        "--quantize",
        type=path,
        metavar="FILE",
        help="quantize the model to int8 first; an .npz file holds an array for each parameter, by name, "
        "with the inputs that show how large values become one after the other along its first axis",
    )
    complete_files(inputs)
    parser.add_argument(
        "--ranges",
        choices=list(RANGES),
        default="minmax",
        help="of --quantize: how ranges follow from what was seen (default: %(default)s)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="OP",
        help="of --quantize: a convolution or product that stays in float, by the name of its binding, of "
        "the node it comes from, or of an op; may be given several times",
    )
    parser.add_argument(
        "--accuracy",
        type=share,
        metavar="X",
        help="of --quantize: as many products stay in float as it takes to keep the result's error below "
        "this share of the result, such as 0.05",
    )
