"""Reports as JSON and back: the same report, and one error that says what is wrong with any other text."""

import json

import pytest
from kits.sample_reports import sample_report

import annotated_region as ar
from annotated_region.documents import LONGEST_DOCUMENT
from annotated_region.reports.report import Report


@pytest.fixture(scope="module")
def report():
    return sample_report()


def changed(report, path, value):
    """The text of a report with another value at a place; None takes the field out."""
    data = report.to_dict()
    *holders, last = path
    holder = data
    for step in holders:
        holder = holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return json.dumps(data)


def test_the_sample_holds_every_kind_of_thing(report):
    (function,) = report.functions
    assert function.apart or function.dissolved
    assert function.unavailable == {"absent": "install libabsent"}
    assert function.resolution["cost"] > 0
    assert any(op.costs for op in function.ops)
    assert any(op.lost for op in function.ops)
    assert any(op.declines for op in function.ops)
    assert function.values
    assert function.regions


def test_a_report_comes_back_as_it_was(report):
    for indent in (None, 2):
        read = Report.from_json(report.to_json(indent))
        assert read == report
        assert str(read) == str(report)
        assert read.details() == report.details()
        assert not report.diff(read)


def test_a_report_without_functions_comes_back():
    assert ar.Report.from_json(Report(()).to_json()) == Report(())


def test_fields_that_later_versions_add_are_passed_over(report):
    assert Report.from_json(changed(report, ["new"], "what is new")) == report
    assert Report.from_json(changed(report, ["functions", 0, "ops", 0, "new"], [1])) == report


def test_a_report_older_than_the_losses_by_cost_comes_back(report):
    first = ["functions", 0, "ops", 0, "lost_by_cost"]
    assert Report.from_json(changed(report, first, None)).functions[0].ops[0].lost_by_cost == ()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["functions", 0, "ops", 0, "lost_by_cost"],
            ["absent from costs"],
            r"ops\[0\].lost_by_cost is .*, and should be targets of `lost` that have costs",
        ),
        (["kind"], "lock", r"^this is a document of the kind 'lock', not 'report'$"),
        (["kind"], None, "^the report has no field 'kind'$"),
        (["schema"], 2, "^the report has schema 2, and this version reads schema 1$"),
        (["functions"], {}, "^the report: functions is an object, and should be a list$"),
        (["functions", 0], 7, r"^the report: functions\[0\] is 7, and should be an object$"),
        (
            ["functions", 0, "ops", 1, "name"],
            1,
            r"functions\[0\].ops\[1\].name is 1, and should be a string$",
        ),
        (["functions", 0, "ops", 1, "name"], "\ud800", "should be a string without lone surrogates$"),
        (["functions", 0, "ops", 1, "region"], -1, "is -1, and should be an integer from 0 to"),
        (
            ["functions", 0, "ops", 1, "region"],
            99,
            r"ops\[1\]: it is placed on .* not a region of that target$",
        ),
        (["functions", 0, "ops", 1, "bytes"], True, "is true, and should be an integer from 0 to"),
        (["functions", 0, "ops", 1, "bytes"], 10**30, "should be an integer from 0 to"),
        (["functions", 0, "ops", 1, "costs"], {"host": "1"}, "costs.host is '1', and should be a number$"),
        (["functions", 0, "ops", 1, "costs"], {"host": 1e200}, "should be a number between"),
        (
            ["functions", 0, "ops", 1, "claims"],
            {"x": ["a", 2]},
            r"claims.x\[1\] is 2, and should be a string$",
        ),
        (["functions", 0, "cost"], "much", "functions.0..cost is 'much', and should be a number$"),
        (["functions", 0, "values", 0, "consumers"], [0, 6], "has an op index out of range for 6 ops$"),
        (["functions", 0, "values", 0, "result"], 1, "is 1, and should be true or false$"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(report, path, value, message):
    with pytest.raises(ar.DocumentError, match=message):
        Report.from_json(changed(report, path, value))


def test_two_regions_of_one_id_are_refused(report):
    data = report.to_dict()
    data["functions"][0]["regions"].append(data["functions"][0]["regions"][0])
    with pytest.raises(ar.DocumentError, match="two regions have the same id"):
        Report.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the report is not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("9" * 5_000, "is not JSON"),
        (" " * (LONGEST_DOCUMENT + 1), "the limit is"),
        ("[]", "the report is a list, and should be an object"),
        ('{"kind": "' + "x" * 100_000 + '"}', "of the kind 'xxxx"),
    ],
)
def test_what_is_no_report_is_one_short_error(text, message):
    with pytest.raises(ar.DocumentError, match=message) as caught:
        Report.from_json(text)
    assert len(str(caught.value)) < 300


def test_names_that_terminals_obey_do_not_reach_the_message(report):
    with pytest.raises(ar.DocumentError) as caught:
        Report.from_json(changed(report, ["functions", 0, "unavailable"], {"\x1b[31m": 1}))
    assert str(caught.value).isprintable()


def test_bytes_are_no_text():
    with pytest.raises(ar.UsageError, match="the argument text is"):
        Report.from_json(b"{}")  # type: ignore[arg-type]
