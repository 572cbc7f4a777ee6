"""Draws a report into a file; the same report gives the same file, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from annotated_region.drawing.page import page_of
from annotated_region.drawing.svg import svg_of
from annotated_region.errors import DrawingError
from annotated_region.files import write_whole

if TYPE_CHECKING:
    from annotated_region.reports.report import Report

__all__ = ["draw"]

_WRITERS = {".svg": svg_of, ".html": page_of}


def draw(report: Report, path: Path) -> Path:
    """Draw `report` into a file that ends in ``.svg`` or ``.html``, and return its path.

    Raises
    ------
    DrawingError
        The ending is another one, or the layout engine is not installed.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise DrawingError(f"{path} ends neither in {' nor in '.join(_WRITERS)}")
    write_whole(path, writer(report))
    return path
