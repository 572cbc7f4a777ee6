"""What a command of the program is: its name, its help, its arguments and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from annotated_region.printable import printable
from annotated_region.reports.text_table import NARROWEST

__all__ = ["Command", "console", "page_width", "plain"]

# Where the output is no terminal nothing says how wide it may be; this is wide enough for most tables.
_WIDTH_OF_FILES = 120


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the program.

    Attributes
    ----------
    name
        What the user types.
    help
        What it does, in a line.
    examples
        Lines that a user might type; ``--help`` shows them.
    add_arguments
        Declares its arguments.
    run
        Does the work; the result is the exit code.
    """

    name: str
    help: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def console() -> Console:
    """A rich console on the standard output."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_WIDTH_OF_FILES)


def page_width() -> int:
    """How wide tables of text may be: as the terminal is, if the output is one."""
    return max(NARROWEST, console().width)


def plain(text: str) -> Text:
    """Text for a terminal as it is: no markup, and nothing that the terminal obeys."""
    return Text(printable(text))
