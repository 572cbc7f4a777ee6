"""Text of a report as text of HTML and SVG."""

from __future__ import annotations

import html

from annotated_region.printable import printable

__all__ = ["escape"]


def escape(text: str) -> str:
    """The text as XML and HTML hold it; control characters, which XML cannot hold at all, as escapes."""
    return html.escape(printable(text))
