"""The documentation builds without a warning, and all its links resolve."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import annotated_region as ar

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "-q"]
    finished = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return folder


def test_every_page_is_reached_from_the_index(built):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    index = (built / "index.html").read_text()
    assert {page for page in pages if f'href="{page}.html"' not in index} <= {"index"}


def test_the_reference_holds_every_public_name(built):
    text = (built / "api.html").read_text()
    missing = [
        name
        for name in ar.__all__
        if f'id="annotated_region.{name}"' not in text and name not in ("backends", "passes", "__version__")
    ]
    assert missing == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_between_files_of_the_checkout_lead_somewhere(path):
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
