"""Saved checks as pictures: each region in the colour of its verdict, with its error beside it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from kits.checking.faulty_backend import NAME, Fault, register
from kits.reports.equal_regions import EqualRegions

import annotated_region as ar
from annotated_region.drawing.colours import fill_of_verdict
from annotated_region.drawing.quotient import quotient
from annotated_region.findings.verdicts import RegionVerdict, Verdict, worst_verdict
from annotated_region.testing.registry import temporary_registrations

SVG = "{http://www.w3.org/2000/svg}"
RED, GREEN = fill_of_verdict(Verdict.WRONG), fill_of_verdict(Verdict.RIGHT)


def checked(fault=None):
    with temporary_registrations():
        register(("relax.nn.relu", "relax.add", "relax.multiply"), fault)
        x = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
        return ar.check(EqualRegions, [NAME], inputs=[x], prepare=False)


@pytest.fixture(scope="module")
def wrong():
    return checked(Fault("scale", "g"))


def regions_of(report):
    return report.placement.functions[0].regions


def verdicts(report):
    return [region.checked.verdict for region in regions_of(report)]


def fills(path):
    """The boxes of an SVG: their titles and colours, and whether they are marked as wrong."""
    groups = list(ET.parse(path).getroot().iter(f"{SVG}g"))
    boxes = [(group.findtext(f"{SVG}title"), box) for group in groups for box in group.findall(f"{SVG}rect")]
    return [(title, box.get("style"), "wrong" in (box.get("class") or "")) for title, box in boxes]


def test_the_placement_has_the_verdict_on_each_region(wrong):
    assert verdicts(wrong) == [Verdict.RIGHT, Verdict.RIGHT, Verdict.WRONG]
    assert verdicts(checked()) == [Verdict.RIGHT] * 3
    last = wrong.placement.functions[0].regions[2].checked
    region = next(each for each in wrong.regions if not each.ok)
    assert last == RegionVerdict(Verdict.WRONG, region.symbol, region.absolute, region.relative, ("g",))
    assert "is wrong: error 0.3 of largest" in str(wrong.placement)


def test_a_saved_check_is_drawn_as_the_check_itself(wrong, tmp_path):
    again = ar.CheckReport.from_json(wrong.to_json())
    for ending in ("svg", "html", "json"):
        one, other = (each.draw(tmp_path / f"{n}.{ending}") for n, each in enumerate((wrong, again)))
        assert one.read_bytes() == other.read_bytes()


def test_boxes_have_the_colour_of_their_verdict_and_its_error(wrong, tmp_path):
    boxes = {title.split(":")[0]: rest for title, *rest in fills(wrong.draw(tmp_path / "x.svg"))}
    marked = {title: (style, is_wrong) for title, (style, is_wrong) in boxes.items() if "region" in title}
    assert [(RED in style, GREEN in style, is_wrong) for style, is_wrong in marked.values()] == [
        (False, True, False), (False, True, False), (True, False, True),
    ]  # fmt: skip
    (function,) = wrong.placement.functions
    lines = [line for box in quotient(function).boxes for line in box.lines if "error" in line]
    assert lines == ["right: error 0 of largest"] * 2 + ["wrong: error 0.3 of largest"]
    assert all(len(line) <= 31 for line in lines)  # what an SVG shows of a line


def test_a_page_tells_the_verdicts_and_the_ops_to_blame(wrong, tmp_path):
    page = wrong.draw(tmp_path / "x.html").read_text()
    assert "Regions have the colour of their verdict" in page
    assert "wrong: error 0.3 of largest; smallest failing set: g</summary>" in page
    assert "smallest failing set: g (relax.multiply)" in page  # the check as text, on top
    assert f'"verdict":"wrong","fill":"{RED}"' in page


def test_model_explorer_has_verdicts(wrong, tmp_path):
    ((graph,),) = [each["graphs"] for each in json.loads(wrong.draw(tmp_path / "x.json").read_text())]
    of = {node["label"]: node for node in graph["nodes"]}
    told = {each["key"]: each["value"] for each in of["multiply"]["attrs"]}
    assert told["check of the region"] == "wrong: error 0.3 of largest"
    assert told["is to blame"] == "yes"
    assert of["multiply"]["style"] == {"backgroundColor": RED}
    assert of["add"]["style"] == {"backgroundColor": GREEN}


def test_errors_that_are_no_numbers_are_kept():
    overflow = checked(Fault("overflow", "g"))
    plain = overflow.to_dict()["functions"][0]["regions"][2]["check"]
    assert plain["verdict"] == "wrong"
    again = ar.CheckReport.from_json(overflow.to_json())
    assert regions_of(again) == regions_of(overflow)
    nan = json.loads(overflow.to_json())
    nan["functions"][0]["regions"][2]["check"]["relative"] = "inf"
    assert regions_of(ar.CheckReport.from_json(json.dumps(nan)))[2].checked.relative == float("inf")


def test_the_worst_of_several_regions_is_told():
    right, wrong = RegionVerdict(Verdict.RIGHT, "a", 0.0, 0.5), RegionVerdict(Verdict.WRONG, "b", 0.0, 0.1)
    unseen, raised = RegionVerdict(Verdict.NOT_RUN, "c"), RegionVerdict(Verdict.FAILS, "d")
    assert worst_verdict([unseen, right, wrong]) == wrong
    assert worst_verdict([unseen, wrong, raised]) == raised
    assert worst_verdict([unseen, right]) == right
    assert worst_verdict([]) is None


def test_a_check_without_its_placement_is_not_drawn(wrong, tmp_path):
    plain = wrong.to_dict()
    del plain["functions"]
    old = ar.CheckReport.from_json(json.dumps(plain))
    with pytest.raises(ar.DrawingError, match=r"saved without its placement; check again, then draw"):
        old.draw(tmp_path / "x.html")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "fine"}, r"regions\[0\].check.verdict is 'fine', and should be one of right, wrong"),
        ({"relative": "far"}, r"regions\[0\].check.relative is 'far', and should be a number"),
        ({"culprits": [1]}, r"culprits\[0\] is 1, and should be a string"),
    ],
)
def test_verdicts_of_strangers_are_read_with_care(wrong, change, message):
    plain = wrong.to_dict()
    plain["functions"][0]["regions"][0]["check"].update(change)
    with pytest.raises(ar.DocumentError, match=message):
        ar.CheckReport.from_json(json.dumps(plain))
