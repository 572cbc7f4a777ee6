"""The arguments of placement: targets, policies, constraints and options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TypeVar

from annotated_region.arguments import brief_repr
from annotated_region.command_line.options import (
    KINDS_OF_MODELS,
    add_limits_argument,
    complete_files,
    count,
    file_name,
    path,
)

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
    """Add the model, the targets, and the resolution of conflicts between targets.

    Parameters
    ----------
    parser
        The parser to add them to.
    also
        Other kinds of input, in words; then targets are optional.
    """
    model = parser.add_argument(
        "model",
        type=file_name,
        help=f"a file of {KINDS_OF_MODELS}{also}",
    )
    complete_files(model)
    add_limits_argument(parser)
    parser.add_argument(
        "--shape",
        type=_assignment(_shape, "INPUT=N,N..."),
        action="append",
        default=[],
        metavar="INPUT=N,N...",
        help="the shape of an input of an ONNX model whose extents must be numbers, such as the length of a "
        "sequence; ? leaves an extent as it is; may be given several times",
    )
    parser.add_argument(
        "--value",
        type=_assignment(_value, "INPUT=VALUE"),
        action="append",
        default=[],
        metavar="INPUT=VALUE",
        help="the value of an input of an ONNX model, which becomes a constant, in JSON: a number, true or "
        "false for all elements, or a list; may be given several times",
    )
    add_policy_arguments(parser, needs_targets=not also)
    _add_constraint_arguments(parser)
    parser.add_argument(
        "--no-prepare",
        dest="prepare",
        action="store_false",
        help="do not prepare the module for inference",
    )
    parser.add_argument(
        "--cross-compile", action="store_true", help="also use targets that cannot run on this machine"
    )


def add_policy_arguments(parser: argparse.ArgumentParser, needs_targets: bool = True) -> None:
    """Add the targets, and the resolution of conflicts between them."""
    parser.add_argument(
        "--targets",
        required=needs_targets,
        type=_names,
        metavar="NAME[,NAME...]",
        help="the targets, in the order of preference",
    )
    parser.add_argument(
        "--policy",
        choices=["priority", "least-cost"],
        default="priority",
        help="ops of several targets go to the first, or where they cost least (default: %(default)s)",
    )
    parser.add_argument(
        "--cost",
        choices=COST_MODELS,
        help="the cost model of --policy least-cost; measured runs every distinct op once "
        f"(default: {COST_MODELS[0]})",
    )


def _add_constraint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        type=_assignment(str),
        metavar="OP=TARGET",
        help="the only target that may run an op, or host; OP is a binding, as shown by explain --ops, "
        "or the name of an op, such as relax.nn.softmax; may be given several times",
    )
    parser.add_argument(
        "--ban",
        action="append",
        default=[],
        type=_assignment(_names),
        metavar="OP=TARGET[,TARGET...]",
        help="targets that may not run an op; may be given several times",
    )
    parser.add_argument(
        "--min-work",
        action="append",
        default=[],
        type=_assignment(_work),
        metavar="TARGET=N",
        help="the minimum work of a region of a target: a convolution or product counts 10, other ops 1",
    )


def add_code_generator_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the targets' code generators, for commands that build."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=_generator_option,
        metavar="TARGET.NAME=VALUE",
        help="an option of a code generator, such as dnnl.precision=bf16; may be given several times",
    )


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the inputs of the model: arrays of a file, and the values of symbolic extents."""
    inputs = parser.add_argument(
        "--inputs",
        type=path,
        metavar="FILE",
        help="an .npz file with an array for each parameter, by name; generated if omitted",
    )
    complete_files(inputs)
    parser.add_argument(
        "--extent",
        action="append",
        default=[],
        type=_assignment(count),
        metavar="NAME=N",
        help="the value of a symbolic extent, such as batch=2; may be given several times",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of names")
    return names


def _shape(text: str) -> list[int | None]:
    """Extents, of which None is one that stays as the model has it."""
    return [None if each.strip() == "?" else count(each) for each in text.split(",")]


def _value(text: str) -> object:
    """What JSON says: a number, a truth value, or nested lists of these."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, bool | int | float | list):
        raise argparse.ArgumentTypeError(
            f"{brief_repr(text)} is no number, true, false or list of these in JSON"
        )
    return value


def _assignment(read: Callable[[str], Value], form: str = "NAME=VALUE") -> Callable[[str], tuple[str, Value]]:
    """Parses ``name=value``; the last ``=`` separates, because names of bindings may contain one."""

    def assignment(text: str) -> tuple[str, Value]:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {form}")
        return name, read(value)

    return assignment


def _generator_option(text: str) -> tuple[str, str, object]:
    form = "TARGET.NAME=VALUE"
    key, value = _assignment(_scalar, form)(text)
    target, _, name = key.partition(".")
    if not (target and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not {form}")
    return target, name, value


def _work(text: str) -> float:
    try:
        work = float(text)
    except ValueError:
        work = -1.0
    if not 0 <= work <= _MOST_WORK:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST_WORK:g}")
    return work


def _scalar(text: str) -> object:
    """A JSON number or boolean as its value; anything else as text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float) else text
