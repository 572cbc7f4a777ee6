"""Arguments that say which target gets what, and what they ask for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TypeVar

from annotated_region.command_line.options import add_limits_argument, complete_files, count, file_name, path

__all__ = [
    "COST_MODELS",
    "add_code_generator_arguments",
    "add_input_arguments",
    "add_placement_arguments",
    "add_policy_arguments",
]

Value = TypeVar("Value")
_MOST_WORK = 1e15
COST_MODELS = ("roofline", "measured", "unit")
"""The names of the cost models; the first is the default."""


def add_placement_arguments(parser: argparse.ArgumentParser, also: str = "") -> None:
    """The model, the targets, and how conflicts between targets are settled.

    Parameters
    ----------
    parser
        What gets them.
    also
        What else the model may be, in words; targets may be left out then.
    """
    model = parser.add_argument(
        "model",
        type=file_name,
        help=f"a file of ONNX (.onnx) or torch.export (.pt2), or Relax as TVMScript (.py){also}",
    )
    complete_files(model)
    add_limits_argument(parser)
    add_policy_arguments(parser, needs_targets=not also)
    _add_constraint_arguments(parser)
    parser.add_argument(
        "--no-prepare",
        dest="prepare",
        action="store_false",
        help="take the module as it is, do not fold anything",
    )
    parser.add_argument(
        "--cross-compile", action="store_true", help="let targets win that cannot run on this machine"
    )


def add_policy_arguments(parser: argparse.ArgumentParser, needs_targets: bool = True) -> None:
    """The targets, and how conflicts between them are settled."""
    parser.add_argument(
        "--targets",
        required=needs_targets,
        type=_names,
        metavar="NAME[,NAME...]",
        help="the targets, the most preferred first",
    )
    parser.add_argument(
        "--policy",
        choices=["priority", "least-cost"],
        default="priority",
        help="what several targets claim goes to the first, or where it costs least (default: %(default)s)",
    )
    parser.add_argument(
        "--cost",
        choices=COST_MODELS,
        default="roofline",
        help="what least-cost goes by; measured runs every distinct op once (default: %(default)s)",
    )


def _add_constraint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        type=_assignment(str),
        metavar="OP=TARGET",
        help="the one target that may have an op, or host; OP is a binding, as explain --ops shows it, "
        "or the name of an op, such as relax.nn.softmax; may be given several times",
    )
    parser.add_argument(
        "--ban",
        action="append",
        default=[],
        type=_assignment(_names),
        metavar="OP=TARGET[,TARGET...]",
        help="targets that may not have an op; may be given several times",
    )
    parser.add_argument(
        "--min-work",
        action="append",
        default=[],
        type=_assignment(_work),
        metavar="TARGET=N",
        help="the least work of a region of a target: a convolution or a product counts 10, other ops 1",
    )


def add_code_generator_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the targets' code generators, for commands that build."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=_generator_option,
        metavar="TARGET.NAME=VALUE",
        help="an option of a code generator, such as dnnl.precision=bf16; may be given several times",
    )


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What a model is run with: arrays of a file, and what symbolic extents are."""
    inputs = parser.add_argument(
        "--inputs",
        type=path,
        metavar="FILE",
        help="an .npz file with an array for each parameter, by name; if left out, inputs are made",
    )
    complete_files(inputs)
    parser.add_argument(
        "--extent",
        action="append",
        default=[],
        type=_assignment(count),
        metavar="NAME=N",
        help="what a symbolic extent is, such as batch=2; may be given several times",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names with commas between them")
    return names


def _assignment(read: Callable[[str], Value]) -> Callable[[str], tuple[str, Value]]:
    """Reads ``name=value``; the last sign divides, since names of bindings may hold one."""

    def assignment(text: str) -> tuple[str, Value]:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
        return name, read(value)

    return assignment


def _generator_option(text: str) -> tuple[str, str, object]:
    key, value = _assignment(_scalar)(text)
    target, _, name = key.partition(".")
    if not (target and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not TARGET.NAME=VALUE")
    return target, name, value


def _work(text: str) -> float:
    try:
        work = float(text)
    except ValueError:
        work = -1.0
    if not 0 <= work <= _MOST_WORK:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {_MOST_WORK:g}")
    return work


def _scalar(text: str) -> object:
    """A number or a truth value as JSON has them; anything else is text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float) else text
