"""The breakages of `breakages.py` still stand for lines of the code and for tests."""

from pathlib import Path

import pytest
from breakages import BREAKAGES, ROOT, Breakage


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.what)
def test_what_a_breakage_replaces_is_there_once(breakage: Breakage) -> None:
    assert (ROOT / breakage.file).read_text(encoding="utf-8").count(breakage.old) == 1
    files = [word for word in breakage.tests if word.endswith(".py")]
    assert files
    assert all(Path(ROOT, file).is_file() for file in files)
