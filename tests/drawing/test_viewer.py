"""The picture of a page: its data, its colours and arrows, harmless names, and what a browser makes of it."""

from __future__ import annotations

import base64
import colorsys
import json
import re
import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.drawing.colours import fills_of
from annotated_region.drawing.layout import WIDTH, layout_of
from annotated_region.drawing.quotient import Box, Line, Picture, quotient
from annotated_region.drawing.svg import size_of
from annotated_region.drawing.viewer_data import module_path
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

HOSTILE = "</script><script>alert(1)</script>\x1b[2J\x07<!--&"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        yield


def explained(mod=None):
    return ar.explain(mod or module_of(SIX_OPS), ["sketch"], prepare=False)


def renamed(report, **changes):
    """The report with other names at its ops: those of the first get `changes`."""
    (function,) = report.functions
    ops = (replace(function.ops[0], **changes), *function.ops[1:])
    return replace(report, functions=(replace(function, ops=ops),))


def part_of(text, pattern):
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None
    return found[1]


def data_of(text):
    return json.loads(part_of(text, r'<script type="application/json" id="ar-data">(.*?)</script>'))


def test_the_data_of_a_page_are_those_of_the_report(tmp_path):
    report = explained()
    (function,) = data_of(report.draw(tmp_path / "x.html").read_text())["functions"]
    assert [(op["name"], op["place"]) for op in function["ops"]] == [
        ("a1", "sketch, region 0"), ("a2", "sketch, region 0"), ("x1", "host"), ("y1", "host"),
        ("b1", "sketch, region 1"), ("b2", "sketch, region 1"),
    ]  # fmt: skip
    values = report.to_dict()["functions"][0]["values"]
    edges = [[each["producer"], reader] for each in values for reader in each["consumers"]]
    assert [edge[:2] for edge in function["edges"]] == [edge for edge in edges if edge[0] is not None]
    assert all(label == "24 B" for _from, _to, label in function["edges"])


def test_hostile_names_stay_data(tmp_path):
    report = renamed(explained(), name=HOSTILE, key=f"{HOSTILE}/{HOSTILE}", origin=HOSTILE)
    text = report.draw(tmp_path / "x.html").read_text()
    assert text.count("</script>") == text.count("<script") == 2
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    (function,) = data_of(text)["functions"]
    assert r"\x1b[2J\x07" in function["ops"][0]["name"]


def test_the_policy_of_a_page_allows_its_one_script_alone(tmp_path):
    text = explained().draw(tmp_path / "x.html").read_text()
    script = part_of(text, r"<script>(.*?)</script>")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_the_colour_of_a_target_is_that_of_its_name_wherever_it_is_free():
    assert (
        fills_of(["dnnl", "mynpu", "toy"])["toy"]
        == fills_of(["toy", "dnnl"])["toy"]
        == fills_of(["toy"])["toy"]
    )
    assert fills_of(["onnxruntime", "dnnl"])["dnnl"] == fills_of(["dnnl"])["dnnl"]
    assert len({*fills_of(["dnnl", "onnxruntime", "openvino", "tensorrt"]).values()}) == 6


def test_the_targets_of_one_picture_differ_in_colour():
    """Also where checksums of their names agree: 14 names have 7 hues."""
    names = [f"engine{number}" for number in range(14)]
    fills = fills_of(["dnnl", *names])
    assert len({*fills.values()}) == 14 + 3
    assert fills == {target: fills_of([*reversed(names), "dnnl"])[target] for target in fills}


def test_similar_hues_are_told_apart():
    """The checksums of these two names are 5 degrees apart."""
    left, right = (hue_of(fills_of(["left", "right"])[name]) for name in ("left", "right"))
    assert abs(left - right) >= 20


def hue_of(colour):
    """In degrees, of ``#rrggbb``."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 360 * colorsys.rgb_to_hls(*channels)[0]


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            a = R.tanh(x)
            b = R.nn.relu(a)
            R.output(b)
        return b


def test_an_edge_of_symbolic_size_has_its_type_and_not_a_question_mark(tmp_path):
    report = explained(Symbolic)
    lines = quotient(report.functions[0]).lines
    assert [size_of(line) for line in lines] == ["float32[n, 4]"] * 3
    assert "? B" not in report.draw(tmp_path / "x.svg").read_text()
    assert ar.Report.from_json(report.to_json()) == report


def test_lines_have_arrowheads(tmp_path):
    text = explained().draw(tmp_path / "x.svg").read_text()
    assert text.count('marker-end="url(#ar-head)"') == len(quotient(explained().functions[0]).lines)
    assert '<marker id="ar-head"' in text


def ladder():
    """Boxes of unequal heights, three in each layer, and lines from each to all below."""
    boxes = [Box(f"b{number}", ("x",) * (40 * (number % 3 == 1)), "host") for number in range(12)]
    ends = (Box("parameters", (), ""), Box("result", (), ""))
    lines = [Line(each, to, 1, 4) for each in range(9) for to in range(3 * (each // 3) + 3, 12)]
    return Picture((*boxes, *ends), (*lines, *(Line(12, each, 1, 4) for each in range(3))))


def test_lines_pass_no_box():
    """A line changes its column between layers alone; within a layer it goes straight down."""
    picture = ladder()
    layout = layout_of(picture)
    for line, points in zip(picture.lines, layout.lines, strict=True):
        for x, y in sampled(points):
            inside = [number for number, box in enumerate(layout.boxes) if _within(box, x, y)]
            assert not inside, f"the line from {line.source} to {line.target} passes {inside}"


def sampled(points):
    """Points of a line as it is drawn: a cubic curve that leaves and enters each gap upright."""
    for (x, y), (to_x, to_y) in pairwise(points):
        for step in range(1, 20):
            share = step / 20
            smooth = share * share * (3 - 2 * share)
            middle = 1.5 * share * (1 - share) * (1 - share) + 1.5 * share * share * (1 - share) + share**3
            yield x + smooth * (to_x - x), y + middle * (to_y - y)


def _within(box, x, y):
    return box.x < x < box.x + WIDTH and box.y < y < box.y + box.height


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("lv3", []),
        ("/layer1/conv/Conv", ["layer1", "conv"]),
        ("layers.0.query (model.py:42)#2", ["layers", "0"]),
        ("Conv:out", []),
    ],
)
def test_the_modules_of_an_op(key, path):
    assert module_path(replace(explained().functions[0].ops[0], key=key)) == path


SCRIPT = """
const view = annotatedRegion[0], out = {};
const count = () => view.boxes.length;
view.mode.value = "region"; view.mode.onchange(); out.folded = count();
view.root.querySelector("[data-verb=unfold]").onclick(); out.unfolded = count();
view.root.querySelector("[data-verb=fold]").onclick(); out.again = count();
view.mode.value = "module"; view.mode.onchange(); out.modules = count();
view.unfold(view.boxes[0]); out.opened = count();
view.search.value = "TANH"; view.find(); out.found = view.found.length;
view.next(); out.shown = view.side.textContent.includes("tanh");
const scale = view.scale; view.zoom(2, 10, 10); out.zoomed = view.scale > scale;
view.draw(); out.drawn = view.canvas.dataset.milliseconds !== undefined;
// Sixty blocks of eight branches, which a chain of seven ops joins from the left: each block slants a little.
const ops = [], edges = [];
const op = (...reads) => {
  reads.forEach((read) => edges.push([read, ops.length, ""]));
  return ops.push({ ...view.fn.ops[0], path: [] }) - 1;
};
let last = op();
for (let block = 0; block < 60; block += 1) {
  const branches = Array.from({ length: 8 }, () => op(op(last)));
  last = branches.reduce((left, right) => op(left, right));
}
view.fn = { ...view.fn, ops, edges }; view.mode.value = "op"; view.mode.onchange();
out.columns = view.wide / 222;
document.body.setAttribute("data-out", JSON.stringify(out));
"""


def test_a_browser_folds_unfolds_searches_and_zooms(tmp_path):
    """In a real Chromium, on the page with a script behind it that does what a user would."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on this machine; Debian's package of that name is what .ci/run installs")
    report = renamed(explained(), key="net/block/a1", origin="net/block/a1")
    (function,) = report.functions
    keyed = tuple(replace(op, key=f"net/{op.name}") if op.key[0] == "x" else op for op in function.ops)
    report = replace(report, functions=(replace(function, ops=keyed),))
    text = report.draw(tmp_path / "x.html").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (tmp_path / "driven.html").write_text(text.replace("</body>", f"<script>{SCRIPT}</script></body>"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    shown = subprocess.run(
        [*command, "--dump-dom", (tmp_path / "driven.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    ).stdout
    said = json.loads(part_of(shown, r'data-out="(.*?)"').replace("&quot;", '"'))
    # Eight boxes side by side, and at most two more of slant.
    assert 8 <= said.pop("columns") <= 10
    # Four boxes: two regions and two host ops. In folders: `net`, which holds two, and the four others.
    assert said == {
        "folded": 4, "unfolded": 6, "again": 4, "modules": 5, "opened": 6,
        "found": 2, "shown": True, "zoomed": True, "drawn": True,
    }  # fmt: skip


def test_graphs_for_model_explorer(tmp_path):
    """Nodes, layers, edges and colours in the form of the package's ``GraphCollection``."""
    report = renamed(explained(), key="net/block/a1")
    ((collection),) = json.loads(report.draw(tmp_path / "x.json").read_text())
    (graph,) = collection["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"]) == 6 + 2 + 1
    assert nodes["op0"]["namespace"] == "net/block"
    assert {"key": "target", "value": "sketch"} in nodes["op0"]["attrs"]
    assert nodes["op0"]["style"]["backgroundColor"] == fills_of(["sketch"])["sketch"]
    edges = [(edge["sourceNodeId"], each) for each, node in nodes.items() for edge in node["incomingEdges"]]
    assert all(source in nodes for source, _target in edges)
    values = report.to_dict()["functions"][0]["values"]
    assert len(edges) == sum(len(value["consumers"]) + value["result"] for value in values)
