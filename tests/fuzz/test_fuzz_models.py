"""Mutated models through the program: a report or one line of error for any content."""

import os
from pathlib import Path

import pytest
from fuzz_campaign import onnx_files, operator_files, script_files
from kits.fuzz.fuzz_kit import explained

CORPUS = sorted(
    path for path in (Path(__file__).parent / "corpus").iterdir() if path.suffix in (".onnx", ".py")
)
EXAMPLES = int(os.environ.get("AR_CAMPAIGN_EXAMPLES", "0"))
FEW, MOST = 20, 5000
SEED = 1


def count():
    return min(max(EXAMPLES, FEW), MOST)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_was_found_stays_mended(path):
    ending = explained(path.read_bytes(), path.name)
    assert not ending.objection, ending.message


def bad_endings(files):
    endings = ((name, explained(content, name)) for name, content in files)
    return [(name, ending) for name, ending in endings if ending.objection]


@pytest.mark.campaign
def test_mutated_onnx_files():
    assert not bad_endings(onnx_files(count(), SEED))


@pytest.mark.campaign
def test_mutated_scripts():
    assert not bad_endings(script_files(count(), SEED))


@pytest.mark.campaign
def test_operators_without_their_inputs():
    assert not bad_endings(operator_files(10 if EXAMPLES else 1, SEED, only=None if EXAMPLES else FEW))


def test_the_judge_notices_what_runs():
    """Without the guard the attacks leave their file, and the judge says so."""
    text = b"__import__('pathlib').Path('canary').touch()\n"
    ending = explained(b"", "m.py", before=lambda: exec(compile(text, "m.py", "exec")))
    assert ending.objection == "something ran, and left ['canary', 'm.py']"


def test_the_judge_notices_crashes_and_defects():
    assert (
        explained(b"", "m.py", before=lambda: os.kill(os.getpid(), 11)).objection == "it ended with SIGSEGV"
    )
    assert explained(b"", "m.py", before=lambda: 1 // 0).objection == "it ended with 99"
