"""One HTML page: the picture of each function to zoom, search and unfold, its regions, all ops with reasons.

The page is self-contained. Its only script is `viewer.js`; the page's content security policy allows only
that, by its digest, and no connections. Model data is embedded as JSON, which the script draws as text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from annotated_region.drawing.escaping import escape
from annotated_region.drawing.quotient import Picture, quotient
from annotated_region.drawing.svg import STYLE, drawing_of, fill_of
from annotated_region.drawing.viewer_data import viewer_data
from annotated_region.findings.function_report import FunctionReport, OpReport, RegionReport
from annotated_region.findings.verdicts import words_for_verdict
from annotated_region.printable import counted

__all__ = ["page_of"]

_TIMES_LEGEND = " Regions have the colour of their time: the slowest is red."
_CHECK_LEGEND = (
    " Regions have the colour of their verdict: red is wrong on its target, green is right; a check runs "
    "each on the values of the reference."
)
_SCRIPT = Path(__file__).with_name("viewer.js").read_text(encoding="utf-8")
_DIGEST = base64.b64encode(sha256(_SCRIPT.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; base-uri 'none'"

_PAGE_STYLE = """\
body { font: 14px sans-serif; margin: 24px; color: #111; }
pre { background: #f4f4f4; padding: 12px; white-space: pre-wrap; max-height: 12em; overflow: auto; }
figure { margin: 12px 0; overflow: auto; max-height: 85vh; border: 1px solid #ccc; }
table { border-collapse: collapse; }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left; vertical-align: top; }
.view { display: grid; grid-template-columns: 1fr 240px; gap: 8px; margin: 12px 0; }
.view .tools { grid-column: 1 / 3; display: flex; flex-wrap: wrap; gap: 6px; align-items: center; }
.view .tools input { flex: 1; min-width: 140px; max-width: 340px; padding: 3px 6px; }
.view .main { width: 100%; height: 70vh; border: 1px solid #ccc; cursor: grab; touch-action: none; }
.view .aside { display: flex; flex-direction: column; gap: 8px; height: 70vh; }
.view .overview { width: 100%; height: 45%; border: 1px solid #ccc; background: #fafafa; }
.view .told { flex: 1; margin: 0; overflow: auto; overflow-wrap: anywhere; font-size: 12px; }
@media (max-width: 700px) { body { margin: 8px; } .view { grid-template-columns: 1fr 110px; } }
summary { cursor: pointer; padding: 4px 0; }
.swatch { display: inline-block; width: 12px; height: 12px; border: 1px solid #555; }
"""


def page_of(functions: Sequence[FunctionReport], summary: str) -> str:
    """The report as a self-contained page."""
    fills = fill_of(functions)
    pictures = [quotient(function) for function in functions]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>annotated-region</title>',
        f"<style>{_PAGE_STYLE}{STYLE}</style></head>",
        "<body>",
        "<h1>Placement of ops on targets</h1>",
        f"<pre>{escape(summary)}</pre>",
        f"<p>{_legend(fills)}</p>",
        "<p>Lines are labelled with their bytes. A dashed red border: another target claims some of it, too."
        f"{_colour_legend(functions)}</p>",
    ]
    for number, (function, picture) in enumerate(zip(functions, pictures, strict=True)):
        parts += _function(number, function, picture, fills)
    data = viewer_data(functions, pictures, fills)
    parts.append(f'<script type="application/json" id="ar-data">{data}</script>')
    parts.append(f"<script>{_SCRIPT}</script>")
    return "\n".join([*parts, "</body>", "</html>", ""])


def _colour_legend(functions: Sequence[FunctionReport]) -> str:
    """The legend of region colours, where they are not those of targets."""
    regions = [region for function in functions for region in function.regions]
    if any(region.checked is not None for region in regions):
        return _CHECK_LEGEND
    return _TIMES_LEGEND if any(region.seconds is not None for region in regions) else ""


def _legend(fills: Mapping[str, str]) -> str:
    return " ".join(
        f'<span class="swatch" style="background: {fill}"></span> {escape(target)}'
        for target, fill in fills.items()
        if target
    )


def _function(
    number: int, function: FunctionReport, picture: Picture, fills: Mapping[str, str]
) -> Iterator[str]:
    yield f"<h2>{escape(function.name)}</h2>"
    yield _VIEW.format(number=number)
    yield '<details class="folded"><summary>The same with its regions folded, as a picture</summary>'
    yield _figure(picture, fills, f"#f{number}-r")
    yield "</details>"
    yield from _apart(function)
    ops_of: dict[int | None, list[OpReport]] = {}
    for op in function.ops:
        ops_of.setdefault(op.region, []).append(op)
    for region in function.regions:
        yield from _region(number, region, ops_of.get(region.id, []))
    yield f"<details><summary>All {len(function.ops)} ops</summary>"
    yield from _table(function.ops)
    yield "</details>"


_VIEW = """\
<div class="view" id="view-{number}"><div class="tools">
<label>fold by <select><option value="region">region</option><option value="module">module</option>\
<option value="op">nothing</option></select></label>
<input type="search" placeholder="search name, op, target, reason" aria-label="search">
<button data-verb="fold">fold all</button><button data-verb="unfold">unfold all</button>
<button data-verb="out" aria-label="zoom out">&minus;</button>\
<button data-verb="in" aria-label="zoom in">+</button><button data-verb="fit">fit</button></div>
<canvas class="main"></canvas>
<div class="aside"><canvas class="overview"></canvas>\
<div class="told">Wheel: zoom. Drag: move. Click: details. Double-click: unfold.</div></div></div>"""


def _figure(picture: Picture, fills: Mapping[str, str], link: str | None) -> str:
    text, (width, height) = drawing_of(picture, fills, link)
    return (
        f'<figure><svg class="ar" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f"{text}\n</svg></figure>"
    )


def _apart(function: FunctionReport) -> Iterator[str]:
    """The pairs of regions kept apart, and what is between them."""
    if not function.apart:
        return
    pairs = (
        "1 pair of regions is" if len(function.apart) == 1 else f"{len(function.apart)} pairs of regions are"
    )
    yield f'<details class="apart"><summary>{pairs} kept apart</summary>'
    yield "<table><tr><th>target</th><th>region of</th><th>region of</th><th>kept apart by</th></tr>"
    for each in function.apart:
        cells = (each.target, each.left, each.right, each.between or "the limits on regions")
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    yield "</table></details>"


def _region(number: int, region: RegionReport, held: Sequence[OpReport]) -> Iterator[str]:
    yield f'<details class="region" id="f{number}-r{region.id}" data-target="{escape(region.target)}">'
    yield (
        f"<summary>Region {region.id}: {escape(region.target)}, {counted(len(held), 'op')}; reads "
        f"{_names(region.inputs)}; gives {_names(region.outputs)}{_verdict(region)}</summary>"
    )
    yield from _table(held)
    yield "</details>"


def _verdict(region: RegionReport) -> str:
    if region.checked is None:
        return ""
    blamed = region.checked.culprits
    beside = f"; smallest failing set: {', '.join(blamed)}" if blamed else ""
    return f"; {escape(words_for_verdict(region.checked) + beside)}"


def _names(names: Sequence[str]) -> str:
    return escape(", ".join(names)) or "nothing"


def _table(ops: Sequence[OpReport]) -> Iterator[str]:
    heads = ("name", "from", "op", "types", "work", "placed", "claimed by", "lost by", "declined by")
    yield f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"
    for op in ops:
        claims = "; ".join(f"{target}: {', '.join(by)}" for target, by in op.claims.items())
        lost = "; ".join(f"{target} {why}" for target, why in op.lost.items())
        declines = "; ".join(f"{target}: {reason}" for target, reason in op.declines.items())
        placed = op.placed if op.region is None else f"{op.placed}, region {op.region}"
        cells = (op.name, op.origin, op.op, op.types, op.work, placed, claims, lost, declines)
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    yield "</table>"
