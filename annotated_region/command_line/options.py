"""Arguments of several commands, and argument types."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from annotated_region.errors import ModelError
from annotated_region.importing.confinement.limits import Limits

__all__ = [
    "KINDS_OF_MODELS",
    "add_limits_argument",
    "complete_files",
    "count",
    "file_name",
    "path",
    "share",
]

KINDS_OF_MODELS = "ONNX (.onnx) or torch.export (.pt2), or Relax as TVMScript (.py)"
"""What models may be files of."""

_MOST = 1_000_000


def add_limits_argument(parser: argparse.ArgumentParser) -> None:
    """The resource limits of the process that reads the model."""
    parser.add_argument(
        "--limits",
        type=_limits,
        default=Limits(),
        metavar="NAME=N[,NAME=N...]",
        help="resource limits for reading the model: memory, time, and file, the size of the resulting "
        "module (default: memory=8G,time=300s,file=8G)",
    )


def complete_files(argument: argparse.Action) -> None:
    """Enable file completion for an argument."""
    argument.complete = shtab.FILE  # type: ignore[attr-defined] # the documented way


def _limits(text: str) -> Limits:
    try:
        return Limits.parse(text)
    except ModelError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    """A nonnegative integer, as an argparse type."""
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > len(str(_MOST)) or int(digits) > _MOST:
        brief = text if len(text) <= 20 else f"{text[:20]}..."
        raise argparse.ArgumentTypeError(f"{brief!r} is not a number from 0 to {_MOST}")
    return int(digits)


def path(text: str) -> Path:
    """The path of a file, as an argparse type."""
    return Path(file_name(text))


def file_name(text: str) -> str:
    """The name of a file as text, as an argparse type."""
    if "\0" in text or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a file name")
    return text


def share(text: str) -> float:
    """A finite nonnegative number, as an argparse type."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a nonnegative number")
    return number
