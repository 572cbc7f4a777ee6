"""Pictures: the same regions as the data, readable at a thousand ops, one file, the same in every process."""

import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import networkx
import pytest
from hypothesis import given
from kits.hash_seeds import outputs_of

import annotated_region as ar
from annotated_region.drawing.quotient import Picture, quotient
from annotated_region.drawing.svg import amount
from annotated_region.testing import Ingredients, modules
from annotated_region.testing.generated import inception, layered, residual
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, module_of
from annotated_region.testing.light_models import light_module
from annotated_region.testing.registry import claim_ops, temporary_registrations

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("pencil", "relax.nn.relu", "relax.multiply", "relax.concat")
        yield


def explained(mod, targets=("sketch",)):
    return ar.explain(mod, list(targets), prepare=False)


def as_network(picture: Picture) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(picture.boxes)))
    graph.add_edges_from((line.source, line.target) for line in picture.lines)
    return graph


def test_the_quotient_of_the_six_ops():
    (function,) = explained(module_of(SIX_OPS)).functions
    picture = quotient(function)
    assert [box.title for box in picture.boxes] == [
        "sketch, region 0: 2 ops", "host", "host", "sketch, region 1: 2 ops", "parameters", "result",
    ]  # fmt: skip
    assert {(line.source, line.target): (line.values, line.bytes) for line in picture.lines} == {
        (4, 0): (2, 48), (0, 1): (1, 24), (0, 2): (1, 24), (0, 3): (2, 48),
        (1, 3): (1, 24), (2, 3): (1, 24), (3, 5): (2, 48),
    }  # fmt: skip


@pytest.mark.parametrize("mod", [module_of(TWO_RESOLUTIONS), layered(6, 6, 0), inception(80)])
def test_every_op_is_in_one_box_and_boxes_form_no_cycle(mod):
    for function in explained(mod, ["sketch", "pencil"]).functions:
        picture = quotient(function)
        held = sorted(op for box in picture.boxes for op in box.ops)
        assert held == list(range(len(function.ops)))
        assert networkx.is_directed_acyclic_graph(as_network(picture))


@given(modules(Ingredients(nodes=10)))
def test_generated_functions_are_drawn(mod):
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.split", "relax.concat")
        report = explained(mod)
    for function in report.functions:
        assert networkx.is_directed_acyclic_graph(as_network(quotient(function)))


def test_boxes_say_who_else_claims_their_ops(tmp_path):
    report = explained(module_of(SIX_OPS), ["sketch", "pencil"])
    text = report.draw(tmp_path / "x.svg").read_text()
    assert "2 claimed by pencil, too" in text
    assert text.count('class="contested"') == 1


def test_an_svg_is_well_formed_and_its_boxes_do_not_overlap(tmp_path):
    root = ET.parse(explained(inception(60)).draw(tmp_path / "x.svg")).getroot()
    rectangles = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("rx")
    ]
    assert len(rectangles) > 10
    for index, (x, y, width, height) in enumerate(rectangles):
        for other_x, other_y, other_width, other_height in rectangles[:index]:
            apart = x >= other_x + other_width or other_x >= x + width
            assert apart or y >= other_y + other_height or other_y >= y + height


def test_a_thousand_ops_fold_into_a_few_boxes(tmp_path):
    claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.multiply", "relax.concat", "relax.tanh")
    report = explained(inception(1000))
    (function,) = report.functions
    assert len(function.ops) >= 1000
    assert len(quotient(function).boxes) == len(function.regions) + 2
    assert (report.draw(tmp_path / "x.svg")).stat().st_size < 20_000


class _Page(HTMLParser):
    """The regions that a page shows, what it refers to, and whether its elements are closed."""

    VOID = ("meta", "rect", "input")

    def __init__(self):
        super().__init__()
        self.open, self.regions, self.references, self.links, self.scripts = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if attributes.get("class") == "region":
            self.regions.append((attributes["id"], attributes["data-target"]))
        self.links += [attributes["href"]] if "href" in attributes else []
        self.references += [attributes[key] for key in ("src", "xlink:href") if key in attributes]
        if tag == "script":
            self.scripts.append(attributes.get("type"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["squeezenet", "inception_v2"])
def test_a_page_shows_the_regions_of_the_data_and_needs_nothing_else(name, tmp_path):
    report = ar.explain(light_module(name), ["sketch", "pencil"])
    page = _Page()
    text = report.draw(tmp_path / "x.html").read_text()
    page.feed(text)
    assert page.open == []
    (function,) = report.to_dict()["functions"]
    regions = [(f"f0-r{region['id']}", region["target"]) for region in function["regions"]]
    assert page.regions == regions
    assert sorted(page.links) == sorted(f"#{anchor}" for anchor, _target in regions)
    assert page.references == []
    assert page.scripts == ["application/json", None]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_names_that_look_like_markup_stay_text(tmp_path):
    claim_ops("<b>&", "relax.tanh", answer="<script>alert(1)</script>")
    report = explained(module_of(SIX_OPS), ["sketch", "<b>&"])
    page = _Page()
    page.feed(report.draw(tmp_path / "x.html").read_text())
    assert page.scripts == ["application/json", None]
    assert page.open == []
    ET.parse(report.draw(tmp_path / "x.svg"))


PROGRAM = """
import sys
import annotated_region as ar
from annotated_region.testing.generated import layered
from annotated_region.testing.registry import claim_ops
claim_ops("sketch", "relax.nn.relu", "relax.add")
report = ar.explain(layered(5, 5, 0), ["sketch"], prepare=False)
for ending in ("svg", "html"):
    sys.stdout.write(report.draw(f"{sys.argv[1]}/x.{ending}").read_text())
"""


def test_two_processes_draw_the_same(tmp_path):
    texts = outputs_of(PROGRAM, str(tmp_path))
    assert texts[0] == texts[1]
    assert "<svg" in texts[0]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ar.DrawingError, match=r"x\.png ends neither in \.svg nor in \.html"):
        explained(module_of(SIX_OPS)).draw(tmp_path / "x.png")


def test_without_the_layout_engine_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(ar.DrawingError, match=r"pip install 'annotated-region\[draw\]'"):
        explained(module_of(SIX_OPS)).draw(tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "? B"), (0, "0 B"), (1536, "1.5 KiB"), (3 << 20, "3 MiB"), (5 << 30, "5 GiB")],
)
def test_amounts_are_written_as_people_do(size, text):
    assert amount(size) == text


def test_an_irregular_graph_of_a_thousand_ops_is_folded_once_more(tmp_path):
    """By target and depth: the picture stays as wide as a page, and every op is still in one box."""
    report = explained(layered(20, 50, 0), ["sketch", "pencil"])
    (function,) = report.functions
    assert len(function.ops) >= 1000
    picture = quotient(function)
    assert sorted(op for box in picture.boxes for op in box.ops) == list(range(len(function.ops)))
    assert networkx.is_directed_acyclic_graph(as_network(picture))
    root = ET.parse(report.draw(tmp_path / "x.svg")).getroot()
    assert float(root.attrib["width"]) < 2000
    texts = "\n".join(line for box in picture.boxes for line in box.lines)
    told = re.findall(r"(\d+) values? of \d+ boxes above", texts)
    assert sum(line.values for line in picture.lines) + sum(map(int, told)) == crossings(function, picture)


def crossings(function, picture):
    """How many values go from one box to another, counted for each box that reads them."""
    box_of = {op: number for number, box in enumerate(picture.boxes) for op in box.ops}
    count = 0
    for value in function.values:
        source = None if value.producer is None else box_of[value.producer]
        count += len({box_of[consumer] for consumer in value.consumers} - {source}) + value.result
    return count


def instructions_during(run):
    """The bytecode instructions of the package's drawing code that run."""
    count = 0

    def traced(frame, event, _argument):
        nonlocal count
        if "/drawing/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return traced

    sys.settrace(traced)
    try:
        run()
    finally:
        sys.settrace(None)
    return count


def test_a_page_of_twice_the_regions_takes_twice_the_instructions(tmp_path):
    """More than twice if each box or layer walked over all regions or ops."""
    work = []
    for size in (250, 500):
        with temporary_registrations():
            claim_ops("left", "relax.add", "relax.nn.relu")
            claim_ops("right", "relax.multiply")
            report = ar.explain(residual(size), ["left", "right"])
        work.append(instructions_during(lambda report=report: report.draw(tmp_path / "x.html")))
    assert work[1] < 2.1 * work[0]
