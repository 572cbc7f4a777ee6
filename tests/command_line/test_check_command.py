"""The command ``check``: its table, its JSON, its exit code, and what it refuses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from kits.command_line.command_line_kit import called, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("models"))


def check(model, *words):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra `onnxruntime`)")
    return called("check", model, "--targets", "onnxruntime", *words)


def test_a_right_model_ends_with_zero(model):
    found = check(model)
    assert found.returncode == 0, found.stderr
    assert re.search(r"onnxruntime_main_0 +│ onnxruntime +│ +\d", found.stdout)
    assert "1 of 1 regions are within their tolerances" in found.stdout
    assert "made x float32[1, 3, 8, 8]: normal numbers" in found.stdout


def test_a_wrong_model_ends_with_one_and_leaves_a_reproducer(model, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.full((1, 3, 8, 8), 1e3, "float32"))
    words = ("--atol", "0", "--rtol", "0", "--inputs", tmp_path / "x.npz", "--save", tmp_path / "fault")
    found = check(model, "--json", *words)
    report = json.loads(found.stdout)
    assert found.returncode == 1
    assert report["ok"] is False
    assert report["inputs"] == []
    assert (tmp_path / "fault" / "show.py").is_file()
    again = check(model, *words)
    assert again.returncode == 1
    assert "already exists and is not overwritten" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--inputs", "missing.npz"), "missing.npz is not a readable file"),
        (("--extent", "n=3"), "no symbolic extent is called 'n'; there is none"),
        (("--cross-compile",), "check runs every region here; omit --cross-compile"),
    ],
)
def test_what_makes_no_sense_is_a_line(model, words, message):
    found = check(model, *words)
    assert found.returncode == 1
    assert message in found.stderr
    assert found.stdout == ""


def test_inputs_of_other_names_are_a_line(model, tmp_path):
    np.savez(tmp_path / "x.npz", image=np.ones((1, 3, 8, 8), "float32"))
    found = check(model, "--inputs", tmp_path / "x.npz")
    assert found.returncode == 1
    assert "no parameter is called 'image'; there is no input for 'x'" in found.stderr


def test_a_tolerance_below_zero_makes_no_sense(model):
    found = check(model, "--rtol", "-1")
    assert found.returncode == 2
    assert "'-1' is not a nonnegative number" in found.stderr
