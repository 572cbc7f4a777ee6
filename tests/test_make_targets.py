"""What `make test` skips for want of PyTorch, `make test-torch` runs."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
# What a file says that skips without PyTorch; this file skips nothing.
SIGNS = ('importorskip("torch"', ': "torch"', "with_torch", "torch_models", "torch_functions")


def test_every_file_that_skips_without_pytorch_is_run_with_it():
    skipping = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("test_*.py")
        if path.name != Path(__file__).name and needs_torch(path.read_text(encoding="utf-8"))
    }
    assert skipping == set(listed())


def needs_torch(text: str) -> bool:
    return any(sign in text for sign in SIGNS)


def listed() -> dict[str, None]:
    """The files of the target, in order."""
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(r"^NEED_TORCH = (.*)$", makefile, re.MULTILINE)
    assert line is not None
    return dict.fromkeys(word.partition("::")[0] for word in line[1].split())
