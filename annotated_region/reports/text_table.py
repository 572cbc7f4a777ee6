"""Plain text tables that fit a width: cells wrap between words and parts of paths, never inside a part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from annotated_region.printable import printable

__all__ = ["NARROWEST", "text_table"]

NARROWEST = 60
"""The minimum width of a table, in characters."""

_GAP = "  "
_FLOOR = 8  # the minimum width of a column that shrinks
_PARTS = re.compile(r"(?:[^\s/._,:;]|\.(?=\d))*(?:[\s/_,:;]|\.(?!\d))*")
"""A word with the following separator; the point in a number is not a separator."""


def text_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: frozenset[str]
) -> str:
    """A table with a title, a line of headings, and a rule below them.

    Columns have the width of their cells if all fit; otherwise the widest ones shrink first, and their
    cells get several lines. A part that is longer than its column keeps its end, because names are paths,
    whose ends are most specific.

    Parameters
    ----------
    title, heads, rows
        The content. Control characters are escaped, because names may come from files.
    width
        In terminal cells; a wide character occupies two.
    right
        The headings of right-aligned columns.
    """
    cells = [[printable(cell).replace("\n", r"\n") for cell in row] for row in rows]
    widths = _fitted([max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)], width)
    lines = [title, *_lines(heads, heads, widths, right), _GAP.join("-" * each for each in widths)]
    for row in cells:
        lines += _lines(heads, row, widths, right)
    return "\n".join(lines)


def _fitted(widths: list[int], width: int) -> list[int]:
    """The widths of the columns, the widest ones reduced until they fit. O(columns x excess)."""
    room = width - len(_GAP) * (len(widths) - 1)
    fitted = [min(each, room) for each in widths]
    while sum(fitted) > room and max(fitted) > _FLOOR:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        fitted[widest] -= 1
    return fitted


def _lines(
    heads: Sequence[str], cells: Sequence[str], widths: Sequence[int], right: frozenset[str]
) -> Iterator[str]:
    """A row as lines of text."""
    wrapped = [list(_wrapped(cell, width)) for cell, width in zip(cells, widths, strict=True)]
    for line in zip_longest(*wrapped, fillvalue=""):
        placed = (
            _padded(text, width, head in right) for text, width, head in zip(line, widths, heads, strict=True)
        )
        yield _GAP.join(placed).rstrip()


def _wrapped(cell: str, width: int) -> Iterator[str]:
    line = ""
    for part in _PARTS.findall(cell):
        if line and cell_len(line) + cell_len(part.rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += part if cell_len(part.rstrip()) <= width else _end_of(part, width)
    if line.strip():
        yield line.rstrip()


def _end_of(part: str, width: int) -> str:
    """The end of a part that is longer than its column."""
    kept = part.rstrip()
    while cell_len(kept) > width - 1:
        kept = kept[1:]
    return f"\u2026{kept} "


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
