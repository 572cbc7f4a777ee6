"""Mistakes in the example backend: found, shrunk to their fewest ops, and shown by file and line."""

import importlib
import os
import re
import sys
from pathlib import Path

import pytest
from kits.testing.planted_mistakes import MISTAKES

import annotated_region as ar
from annotated_region.testing.conformance import check_backend
from annotated_region.testing.registry import temporary_registrations

SOURCE = Path(__file__).parents[2] / "examples" / "my_backend" / "my_backend" / "__init__.py"
# The others take eleven minutes more, and run where AR_CAMPAIGN_EXAMPLES is set.
IN_THE_SUITE = {
    "a pattern is wrong at its first element",
    "a rule has a slip",
}


def planted(folder, mistake):
    """The example backend with a mistake, imported from a file of its own."""
    text = SOURCE.read_text()
    for old, new in mistake.changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "backend_with_a_mistake.py"
    path.write_text(text.replace("#include <tvm", "#include <cmath>\\n#include <tvm"))
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    return importlib.import_module(path.stem), path


def lines_told(message, path):
    """The text of the lines of a file that a message points to."""
    lines = path.read_text().splitlines()
    return [lines[int(number) - 1] for number in re.findall(rf"{re.escape(str(path))}:(\d+)", message)]


def found_in(folder, monkeypatch, mistake):
    monkeypatch.syspath_prepend(str(folder))
    with temporary_registrations():
        backend, path = planted(folder, mistake)
        backend.register()
        with pytest.raises(ar.ConformanceError) as caught:
            check_backend(backend.NAME, examples=20, save=folder / "kept")
    return caught.value, path


def holds(mistake, error, path, folder):
    message = str(error)
    if mistake.never:
        assert f"  {mistake.never}" in message
    else:
        found = re.findall(r"= R\.([\w.]+)\(", message)
        assert [wanted or op for op, wanted in zip(found, mistake.ops, strict=True)] == found
        assert "Drawn with start=0." in message
        assert list((folder / "kept").glob("my_backend_*.py"))
    assert any(mistake.line in line for line in lines_told(message, path)), message


CHOSEN = [each for each in MISTAKES if each.name in IN_THE_SUITE or "AR_CAMPAIGN_EXAMPLES" in os.environ]


@pytest.mark.campaign
@pytest.mark.parametrize("mistake", CHOSEN, ids=lambda each: each.name)
def test_a_mistake_is_found(tmp_path, monkeypatch, mistake):
    error, path = found_in(tmp_path, monkeypatch, mistake)
    holds(mistake, error, path, tmp_path)
