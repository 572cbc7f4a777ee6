"""How commands print: tables and text, on a terminal or into a file."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from annotated_region.printable import printable
from annotated_region.reports.text_table import NARROWEST

__all__ = ["console", "page_width", "plain"]

# Where the output is no terminal nothing says how wide it may be; this is wide enough for most tables.
_WIDTH_OF_FILES = 120


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
