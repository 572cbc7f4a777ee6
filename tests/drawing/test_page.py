"""The HTML page agrees with the report: regions, ops, reasons and bytes, also in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser

import pytest

import annotated_region as ar
from annotated_region.drawing.svg import amount
from annotated_region.findings.wording import words_for_work
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, module_of
from annotated_region.testing.light_models import light_module
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.nn.conv2d")
        claim_ops("pencil", "relax.nn.relu", "relax.multiply", "relax.concat")
        yield


class _Shown(HTMLParser):
    """What a page shows: its text, the bytes at its lines, and its tables by the details they are in."""

    def __init__(self) -> None:
        super().__init__()
        self.summary = ""
        self.bytes: list[list[str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.details: list[str] = []
        self.inside: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        kind = attributes.get("class") or ""
        if tag == "figure":
            self.bytes.append([])
        if tag == "details":
            self.details.append(attributes.get("id") or kind or "ops")
        if tag == "tr":
            self.tables.setdefault(self.details[-1], []).append([])
        if tag == "td":
            self.tables[self.details[-1]][-1].append("")
        if tag not in ("meta", "rect", "input"):
            self.inside.append((tag, kind))

    def handle_endtag(self, tag):
        if tag in ("meta", "rect", "input"):
            return
        while self.inside.pop()[0] != tag:
            pass
        if tag == "details":
            self.details.pop()

    def handle_data(self, data):
        tag, kind = self.inside[-1] if self.inside else ("", "")
        if tag == "pre":
            self.summary += data
        if kind == "bytes":
            self.bytes[-1].append(data)
        if tag == "td":
            self.tables[self.details[-1]][-1][-1] += data


def row(op):
    """A line of a table, from the data."""
    placed = op["placed"] if op["region"] is None else f"{op['placed']}, region {op['region']}"
    return [
        op["name"],
        op["origin"],
        op["op"],
        f"{', '.join(op['inputs'])} -> {op['output']}",
        words_for_work(op["flops"], op["bytes"]),
        placed,
        "; ".join(f"{target}: {', '.join(by)}" for target, by in op["claims"].items()),
        "; ".join(f"{target} {why}" for target, why in op["lost"].items()),
        "; ".join(f"{target}: {reason}" for target, reason in op["declines"].items()),
    ]


def bytes_between(function):
    """The bytes between regions, and between regions and what is outside of all, by the pair."""
    region = [op["region"] for op in function["ops"]]
    between = Counter()
    for value in function["values"]:
        source = None if value["producer"] is None else region[value["producer"]]
        for target in {region[consumer] for consumer in value["consumers"]} - {source}:
            if source is not None and target is not None:
                between[source, target] += value["bytes"]
    return between


def assert_the_page_says_the_same(text, report):
    shown = _Shown()
    shown.feed(text)
    (function,) = report.to_dict()["functions"]
    assert shown.summary == str(report)
    rows = [row(op) for op in function["ops"]]
    assert [cells for cells in shown.tables["ops"] if cells] == rows
    for region in function["regions"]:
        inside = [cells for cells in shown.tables[f"f0-r{region['id']}"] if cells]
        assert inside == [row(op) for op in function["ops"] if op["region"] == region["id"]]
    apart = [cells for cells in shown.tables.get("apart", []) if cells]
    assert [cells[:3] for cells in apart] == [
        [each["target"], each["left"], each["right"]] for each in function["apart"]
    ]
    written = Counter(shown.bytes[0])
    wanted = Counter(amount(size) for size in bytes_between(function).values())
    assert wanted <= written
    return function


@pytest.mark.parametrize("mod", [module_of(SIX_OPS), module_of(TWO_RESOLUTIONS)], ids=["six", "two"])
def test_the_page_of_a_small_graph_says_what_the_report_says(mod, tmp_path):
    report = ar.explain(mod, ["sketch", "pencil"], prepare=False)
    function = assert_the_page_says_the_same(report.draw(tmp_path / "x.html").read_text(), report)
    assert bytes_between(function)


def test_a_browser_shows_what_the_report_says(tmp_path):
    """A model with two targets that compete, in a real Chromium: what its page holds after it was read."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on this machine; Debian's package of that name is what .ci/run installs")
    report = ar.explain(light_module("squeezenet"), ["sketch", "pencil"])
    path = report.draw(tmp_path / "x.html")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    shown = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=240, check=True
    ).stdout
    assert_the_page_says_the_same(shown, report)
    picture = subprocess.run(
        [*command, f"--screenshot={tmp_path}/x.png", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert "written to file" in picture.stderr
    assert re.match(rb"\x89PNG", (tmp_path / "x.png").read_bytes())
