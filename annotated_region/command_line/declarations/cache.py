"""The arguments of ``cache``: whether to show or to clear, and the age of entries to clear."""

from __future__ import annotations

import argparse
import re

from annotated_region.command_line.command import Command

__all__ = ["COMMAND"]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGE = re.compile(r"(\d{1,6})([smhd])")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear"),
        default="show",
        help="show the cache contents by kind, or remove them (default: %(default)s)",
    )
    parser.add_argument(
        "--older-than",
        type=_age,
        metavar="AGE",
        help="with clear: only entries unused for this time, such as 30d, 12h, 45m or 90s",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _age(text: str) -> int:
    """A duration in seconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age; examples: 30d, 12h, 45m, 90s")
    return int(match[1]) * _SECONDS[match[2]]


COMMAND = Command(
    name="cache",
    help="show what is cached on this machine between builds, or remove it",
    examples=("cache", "cache clear --older-than 30d"),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.cache",
)
