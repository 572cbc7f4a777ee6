"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from annotated_region.errors import ModelError
from annotated_region.importing.limits import Limits

__all__ = [
    "add_limits_argument",
    "complete_files",
    "count",
    "file_name",
    "path",
    "share",
]

_MOST = 1_000_000


def add_limits_argument(parser: argparse.ArgumentParser) -> None:
    """What the process that reads the model may use."""
    parser.add_argument(
        "--limits",
        type=_limits,
        default=Limits(),
        metavar="NAME=N[,NAME=N...]",
        help="what reading the model may take: memory, time, and file, the size of the module that results "
        "(default: memory=8G,time=300s,file=8G)",
    )


def complete_files(argument: argparse.Action) -> None:
    """Let shells offer files for an argument."""
    argument.complete = shtab.FILE  # type: ignore[attr-defined] # the documented way to tell shtab


def _limits(text: str) -> Limits:
    try:
        return Limits.parse(text)
    except ModelError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    """A number that counts something, for argparse."""
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > len(str(_MOST)) or int(digits) > _MOST:
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise argparse.ArgumentTypeError(f"{shown!r} is no number from 0 to {_MOST}")
    return int(digits)


def path(text: str) -> Path:
    """The path of a file, for argparse."""
    return Path(file_name(text))


def file_name(text: str) -> str:
    """The name of a file as text, for argparse."""
    if "\0" in text or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a file")
    return text


def share(text: str) -> float:
    """A finite number from 0 on, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number
