"""What `make test` skips for want of PyTorch, `make test-torch` runs."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
NEEDS_TORCH = re.compile(r'importorskip\("torch"|: "torch"|\b(?:with_torch|torch_models|torch_functions)\b')


def test_every_file_that_skips_without_pytorch_is_run_with_it():
    skipping = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("test_*.py")
        if path.name != Path(__file__).name and NEEDS_TORCH.search(path.read_text(encoding="utf-8"))
    }
    assert skipping == set(listed())


def listed() -> dict[str, None]:
    """The files of the target, in order."""
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(r"^NEED_TORCH = (.*)$", makefile, re.MULTILINE)
    assert line is not None
    return dict.fromkeys(word.partition("::")[0] for word in line[1].split())
