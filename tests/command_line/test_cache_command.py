"""``cache`` and the advice of ``explain``: what they print, what they remove, what they refuse."""

import json
import os

import pytest
from kits.command_line.command_line_kit import called, small_model

from annotated_region.cache import cache_folder, store_entry
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fill():
    cache_folder().mkdir(parents=True, mode=0o700)
    for name in ("object-1", "object-2"):
        store_entry(cache_folder() / name, b"code")
    os.utime(cache_folder() / "object-1", (0, 0))


def test_it_shows_and_clears():
    fill()
    shown = called("cache")
    assert shown.returncode == 0
    assert f"Kept in {cache_folder()}" in shown.stdout
    assert "objects" in shown.stdout
    assert json.loads(called("cache", "clear", "--older-than", "1d", "--json").stdout)["kinds"] == [
        {"kind": "objects", "entries": 1, "bytes": 93}
    ]
    assert "object-2" in os.listdir(cache_folder())
    assert called("cache", "clear").returncode == 0
    assert os.listdir(cache_folder()) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("cache", "show", "--older-than", "1d"), 1, "--older-than is for clear"),
        (("cache", "clear", "--older-than", "1 week"), 2, "'1 week' is not an age"),
        (("cache", "burn"), 2, "invalid choice: 'burn'"),
    ],
)
def test_what_makes_no_sense_removes_nothing(words, code, text):
    fill()
    refused = called(*words)
    assert (refused.returncode, text in refused.stderr) == (code, True)
    assert len(os.listdir(cache_folder())) == 2


def test_a_folder_of_others_is_an_error_line():
    fill()
    cache_folder().chmod(0o777)
    refused = called("cache", "clear")
    assert refused.returncode == 1
    assert "can be written by others; repair or remove it yourself" in refused.stderr
    assert len(os.listdir(cache_folder())) == 2


BANNED = "relax.tanh"


@pytest.fixture
def declining():
    """A target that claims relu and addition alone."""
    with temporary_registrations():
        claim_ops("some", "relax.nn.relu", "relax.add", "relax.nn.conv2d")
        yield


@pytest.mark.usefixtures("declining")
def test_explain_closes_with_the_first_advice(tmp_path):
    told = called("explain", small_model(tmp_path), "--targets", "some")
    assert told.returncode == 0, told.stderr
    last = told.stdout.rstrip().splitlines()[-1]
    assert last.startswith("advice: some: if it claimed tanh (1 op, ")
    assert "host ops 1 -> 0" in last


@pytest.mark.usefixtures("declining")
@pytest.mark.parametrize("words", [("--no-advice",), ("--json",), ("--ban", f"{BANNED}=some")])
def test_explain_gives_no_advice_where_none_is_asked_for(tmp_path, words):
    told = called("explain", small_model(tmp_path), "--targets", "some", *words)
    assert told.returncode == 0, told.stderr
    assert "advice:" not in told.stdout


@pytest.mark.usefixtures("declining")
def test_explain_says_that_a_large_model_gets_no_advice(tmp_path, monkeypatch):
    monkeypatch.setattr("annotated_region.command_line.explain._MOST_OPS", 3)
    told = called("explain", small_model(tmp_path), "--targets", "some")
    assert "advice: none for 4 ops, because it would take long; run annotated-region advise" in told.stdout


def test_explain_is_silent_where_nothing_is_declined(tmp_path):
    assert "advice:" not in called("explain", small_model(tmp_path), "--targets", "dnnl").stdout
