"""Escapes report text for HTML and SVG."""

from __future__ import annotations

import html

from annotated_region.printable import printable

__all__ = ["escape"]


def escape(text: str) -> str:
    """The text escaped for XML and HTML, with control characters, which XML forbids, as escape sequences."""
    return html.escape(printable(text))
