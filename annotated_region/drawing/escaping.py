"""Escapes report text for HTML and SVG."""

from __future__ import annotations

import html

from annotated_region.printable import printable

__all__ = ["escape"]


def escape(text: str) -> str:
    """The text escaped for XML and HTML; control characters, which XML does not allow, become escape
    sequences.
    """
    return html.escape(printable(text))
