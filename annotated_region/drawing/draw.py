"""Draws a report to a file; deterministic, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from annotated_region.drawing.model_explorer import model_explorer_graphs
from annotated_region.drawing.page import page_of
from annotated_region.drawing.svg import svg_of
from annotated_region.errors import DrawingError
from annotated_region.files import write_whole
from annotated_region.findings.function_report import FunctionReport

__all__ = ["draw"]

_ENDINGS = (".svg", ".html", ".json")


def draw(functions: Sequence[FunctionReport], summary: str, path: Path) -> Path:
    """Draw a report to a file that ends in ``.svg``, ``.html`` or ``.json``, and return its path.

    JSON is in the format of Model Explorer.

    Parameters
    ----------
    functions
        The reports of its functions.
    summary
        The report as text, which a page shows at the top.
    path
        The file to write.

    Raises
    ------
    DrawingError
        The file has another ending, or the layout engine is not installed.
    """
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise DrawingError(f"{path} ends neither in {' nor in '.join(_ENDINGS)}")
    write_whole(path, _text(functions, summary, ending))
    return path


def _text(functions: Sequence[FunctionReport], summary: str, ending: str) -> str:
    match ending:
        case ".svg":
            return svg_of(functions)
        case ".json":
            return model_explorer_graphs(functions)
        case _:
            return page_of(functions, summary)
