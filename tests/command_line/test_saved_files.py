"""``diff`` and ``draw`` of saved checks and profiles, and files of kinds that do not go together."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from kits.command_line.command_line_kit import called, small_model

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.region_check import RegionCheck
from annotated_region.drawing.svg import heat
from annotated_region.profiling.parts import KernelTime, RegionTime
from annotated_region.profiling.times import Profile

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)
REGION = RegionCheck("t_main_0", "t", (), 1, (ResultCheck("y", "float32", (4,)),))
RIGHT = ar.CheckReport((REGION,), ())
WRONG = replace(RIGHT, regions=(replace(REGION, error="no device"),))
SLOW = RegionTime("t_main_0", "t", 1, 0.008, 512, 512, (), ("a",))
PROFILE = Profile(0.010, (SLOW,), (KernelTime("softmax", 1, 0.001),), 0.001, 10, 1 << 20)


@pytest.fixture
def saved(tmp_path):
    """Writes a document, and gives its file."""

    def save(name, document):
        (tmp_path / name).write_text(document if isinstance(document, str) else document.to_json())
        return tmp_path / name

    return save


def test_checks_are_compared(saved):
    right, wrong = saved("right.json", RIGHT), saved("wrong.json", WRONG)
    same = called("diff", right, right)
    assert (same.returncode, same.stdout) == (0, "no difference\n")
    found = called("diff", right, wrong)
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("t_main_0: right became fails")
    assert json.loads(called("diff", wrong, right, "--json").stdout)["changes"][0]["after"] == "right"


def test_profiles_are_compared_also_as_bench_prints_them(saved):
    faster = replace(PROFILE, total=0.006, regions=(replace(SLOW, seconds=0.004),))
    printed = json.dumps({"schema": 1, "kind": "bench", "engines": {}, "profile": faster.to_dict()})
    before, after = saved("before.json", PROFILE), saved("after.json", printed)
    assert called("diff", before, before).returncode == 0
    found = called("diff", before, after)
    assert (found.returncode, found.stderr) == (1, "")
    assert "-4.000 ms  t_main_0, 8.000 ms before, 4.000 ms now" in found.stdout
    assert json.loads(called("diff", before, after, "--json").stdout)["total"]["after"] == 0.006


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROFILE.to_json(), "a check and a profile cannot be compared; give two files of one kind"),
        ('{"schema": 1, "kind": "novel"}', "other.json: this is a document of the kind 'novel', not"),
        ('{"schema": 7, "kind": "check"}', "other.json: the check has schema 7, and this version reads"),
        ('{"dnnl": [1.0]}', "other.json: the document has no field 'kind'"),
        ('{"schema": 1, "kind": "bench"}', "other.json: the bench has no field 'profile'"),
        ("{", "other.json: the document is not JSON"),
        ('[{"id": 1}]', "other.json: the document is a list, and should be an object"),
        ("my diary", "other.json: this version cannot read the lock"),
    ],
)
def test_files_that_do_not_go_together_are_a_line(saved, text, message):
    found = called("diff", saved("right.json", RIGHT), saved("other.json", text))
    assert (found.returncode, found.stdout) == (1, "")
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


@needs_onednn
def test_what_bench_prints_colours_a_picture(tmp_path, saved):
    model = small_model(tmp_path)
    bench = called("bench", model, "--targets", "dnnl", "--rounds", "1", "--by-region", "--json")
    times = saved("times.json", bench.stdout)
    words = ("draw", model, "--targets", "dnnl", "-o", tmp_path / "time.html")
    assert called(*words, "--profile", times).returncode == 0
    page = (tmp_path / "time.html").read_text()
    assert "Regions have the colour of their time" in page
    assert heat(1.0, 1.0) in page
    assert called("diff", times, times).returncode == 0
    refused = called(*words, "--profile", saved("right.json", RIGHT))
    assert refused.returncode == 1
    assert "right.json holds a check, not a profile" in refused.stderr
    other = called(*words, "--profile", saved("other.json", PROFILE))
    assert "the region 't_main_0' of the profile is not in the report" in other.stderr


@needs_onednn
def test_what_check_prints_is_drawn(tmp_path, saved):
    found = called("check", small_model(tmp_path), "--targets", "dnnl", "--json")
    check = saved("check.json", found.stdout)
    drawn = called("draw", check, "-o", tmp_path / "check.html")
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "right: error" in (tmp_path / "check.html").read_text()


@pytest.mark.parametrize(
    ("document", "words", "message"),
    [
        (RIGHT, (), "this check was saved without its placement; check again, then draw"),
        (RIGHT, ("--targets", "dnnl", "--pin", "a=host"), "already has a placement; omit --targets, --pin"),
        (RIGHT, ("--profile", "times.json"), "drawn by verdicts, not by times; omit --profile"),
        (PROFILE, (), "holds a profile, which has no placement; draw the model, with --profile"),
    ],
)
def test_what_cannot_be_drawn_is_a_line(tmp_path, saved, document, words, message):
    found = called("draw", saved("saved.json", document), "-o", tmp_path / "x.html", *words)
    assert (found.returncode, found.stdout) == (1, "")
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_model_is_not_drawn_without_targets(tmp_path):
    found = called("draw", tmp_path / "model.onnx", "-o", tmp_path / "x.html")
    assert found.returncode == 1
    assert "name its targets with --targets" in found.stderr
