"""``partition --lock``, ``--check`` and ``diff``: files written, replayed, and compared."""

from __future__ import annotations

import json

import pytest
from kits.command_line.command_line_kit import called, small_model

from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture
def partitioned(tmp_path):
    with temporary_registrations():
        claim_ops("first", "relax.nn.conv2d", "relax.nn.relu")
        claim_ops("first", "relax.tanh", answer="no curves")
        model = small_model(tmp_path)
        yield lambda *words: called("partition", model, "--targets", "first", "--quiet", *words)


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "placement.lock"


def test_a_lock_is_written_and_agrees_from_then_on(partitioned, lock):
    assert partitioned("--lock", lock).returncode == 0
    text = lock.read_text()
    assert text.startswith("annotated-region lock 1\ntarget first -\n")
    assert "op Tanh:t relax.tanh" in text
    for words in (["--check"], []):
        found = partitioned("--lock", lock, *words)
        assert (found.returncode, found.stderr) == (0, "")
        assert lock.read_text() == text


def test_a_check_fails_with_the_difference_and_leaves_the_file_and_no_output(partitioned, lock, tmp_path):
    partitioned("--lock", lock)
    text = lock.read_text()
    claim_ops("first", "relax.nn.relu", answer="not today")
    found = partitioned("--lock", lock, "--check", "-o", tmp_path / "out.py")
    assert found.returncode == 1
    assert found.stderr.endswith(
        "main: 1 op moved from first/0 to host: Relu:r (declined by first: not today)\n"
    )
    assert lock.read_text() == text
    assert not (tmp_path / "out.py").exists()
    # Without the check it is told as well, and the file follows.
    found = partitioned("--lock", lock)
    assert found.returncode == 0
    assert "moved from first/0 to host" in found.stderr
    assert lock.read_text() != text
    assert partitioned("--lock", lock, "--check").returncode == 0


def test_what_is_no_lock_is_an_error_and_is_not_overwritten(partitioned, lock):
    lock.write_text("my diary\n")
    for words in ([], ["--check"]):
        found = partitioned("--lock", lock, *words)
        assert found.returncode == 1
        assert "placement.lock: this version cannot read the lock" in found.stderr
        assert lock.read_text() == "my diary\n"


def test_a_check_without_a_lock_is_an_error(partitioned, lock):
    assert "--check needs a lock file" in partitioned("--check").stderr
    assert "cannot be read" in partitioned("--lock", lock, "--check").stderr


def test_locks_and_reports_are_compared(partitioned, lock, tmp_path):
    partitioned("--lock", lock)
    model = small_model(tmp_path)
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(called("explain", model, "--targets", "first", "--json").stdout)
    claim_ops("first", "relax.tanh")
    after.write_text(called("explain", model, "--targets", "first", "--json").stdout)
    same = called("diff", lock, before)
    assert (same.returncode, same.stdout) == (0, "no difference\n")
    assert "main: 1 op moved from host to first" in called("diff", before, after).stdout
    found = called("diff", lock, after)
    assert found.returncode == 1
    assert "main: 1 op moved from host to first/0: Tanh:t" in found.stdout
    assert json.loads(called("diff", before, after, "--json").stdout)["changes"][0]["after"] == "first"
    told = json.loads(called("diff", lock, after, "--json").stdout)
    assert (told["kind"], told["changes"][0]["key"]) == ("lock-diff", "Tanh:t")
    wrong = called("diff", lock, model)
    assert wrong.returncode == 1
    assert "small.onnx: " in wrong.stderr
