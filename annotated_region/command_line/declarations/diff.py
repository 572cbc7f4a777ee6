"""The arguments of ``diff``: two files."""

from __future__ import annotations

import argparse

from annotated_region.command_line.command import Command
from annotated_region.command_line.options import complete_files, path

__all__ = ["COMMAND"]

_KINDS = "explain --json, check --json, bench --by-region --json or partition --lock"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, which in (("before", "first"), ("after", "second")):
        file = parser.add_argument(name, type=path, help=f"the {which} file, as saved from {_KINDS}")
        complete_files(file)
    parser.add_argument("--json", action="store_true", help="print the difference as JSON")


COMMAND = Command(
    name="diff",
    help="show the differences between two saved reports, checks, profiles or locks; "
    "exit with 1 if there are any",
    examples=(
        "diff before.json after.json",
        "diff main.lock placement.lock --json",
        "diff right.json check.json",
    ),
    add_arguments=_add_arguments,
    work="annotated_region.command_line.diff",
)
