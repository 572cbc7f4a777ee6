"""Draws the pictures of the documentation from its own snippets: ``python docs/pictures/draw.py [folder]``.

A picture shows the module of the first snippet of a page, as `Report.draw` has it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tvm

import annotated_region as ar

__all__ = ["PICTURES", "draw"]

DOCS = Path(__file__).parents[1]
PICTURES = {"regions.svg": "tutorial-regions.md", "annotations.svg": "tutorial-annotations.md"}
"""Each picture, and the page whose first TVMScript it shows."""

_SCRIPT = re.compile(r'tvm\.script\.from_source\("""\n(.*?)"""\)', re.DOTALL)


def draw(folder: Path) -> list[Path]:
    """Draw all pictures into a folder, and return their paths."""
    return [_report(DOCS / page).draw(folder / name) for name, page in PICTURES.items()]


def _report(page: Path) -> ar.Report:
    script = _SCRIPT.search(page.read_text(encoding="utf-8"))
    assert script is not None, f"{page} has no TVMScript"
    # The picture is to be the same on machines without oneDNN.
    return ar.explain(tvm.script.from_source(script[1]), ["dnnl"], cross_compile=True)


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent):
        print(path)
