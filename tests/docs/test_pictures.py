"""The pictures of the documentation are those that its snippets give."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = DOCS / "pictures"


def test_pictures_are_what_the_generator_draws(tmp_path):
    command = [sys.executable, str(PICTURES / "draw.py"), str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert finished.returncode == 0, finished.stderr
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in PICTURES.glob("*.svg")}, (
        "draw them anew: python docs/pictures/draw.py"
    )


def test_every_picture_stands_on_a_page():
    shown = {
        name
        for page in DOCS.glob("*.md")
        for name in re.findall(r"\]\(pictures/([\w.-]+)\)", page.read_text())
    }
    assert shown == {path.name for path in PICTURES.glob("*.svg")}
