"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import shtab

from annotated_region.errors import BackendUnavailableError, ModelError
from annotated_region.importing.limits import Limits
from annotated_region.printable import printable
from annotated_region.targets.backend import backend_of, unavailability

__all__ = [
    "add_limits_argument",
    "complete_files",
    "count",
    "file_name",
    "path",
    "require_available",
    "tell_unavailable",
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


def require_available(targets: Sequence[str], remedy: str = "") -> None:
    """Check that all targets can run here, for commands whose result is worth nothing otherwise.

    Raises
    ------
    UnknownTargetError
        One of them is not registered.
    BackendUnavailableError
        One of them lacks its library or its device.
    """
    for target, reason in _unavailable(targets):
        leave = f"leave it out of --targets{', ' if remedy else ''}{remedy}"
        raise BackendUnavailableError(f"target {target!r} cannot run here: {reason}. Or {leave}")


def tell_unavailable(options: argparse.Namespace) -> None:
    """Say on the standard error which targets get nothing because they cannot run here."""
    if options.cross_compile:
        return
    for target, reason in _unavailable(options.targets):
        print(f"note: target {target!r} gets nothing: {printable(reason)}", file=sys.stderr)


def _unavailable(targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    for target in targets:
        reason = unavailability(backend_of(target))
        if reason:
            yield target, reason
