"""SVG pictures: boxes in the colour of their target, lines with the bytes that cross."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from annotated_region.drawing.colours import fill_of_verdict, fills_of, heat
from annotated_region.drawing.escaping import escape
from annotated_region.drawing.layout import PADDING, TEXT, WIDTH, Placed, PlacedPicture, layout_of
from annotated_region.drawing.quotient import Box, Line, Picture, quotient
from annotated_region.findings.function_report import FunctionReport
from annotated_region.printable import counted

__all__ = ["STYLE", "amount", "fill_of", "drawing_of", "measured_fills", "size_of", "svg_of", "targets_of"]

_LETTERS = 31  # per line of a box
_TITLE_SPACE = 34.0

_HEAD = (
    '<defs><marker id="ar-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto"><path class="head" d="M0 0L10 5L0 10z"></path></marker></defs>'
)

STYLE = """\
.ar text { font: 12px sans-serif; fill: #111; }
.ar .title { font-weight: bold; }
.ar .bytes { font-size: 11px; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.ar rect { stroke: #555; stroke-width: 1; }
.ar .contested { stroke: #c00; stroke-width: 2; stroke-dasharray: 6 3; }
.ar .wrong { stroke: #900; stroke-width: 3; }
.ar path { fill: none; stroke: #777; stroke-width: 1.2; }
.ar .head { fill: #777; stroke: none; }
"""


def svg_of(functions: Sequence[FunctionReport]) -> str:
    """The quotient graphs of all functions, one below the other, in one file."""
    pictures = [(function.name, drawing_of(quotient(function), fill_of(functions))) for function in functions]
    width = max((size[0] for _name, (_text, size) in pictures), default=0.0)
    parts, top = [], 0.0
    for name, (text, (_width, height)) in pictures:
        parts.append(f'<text class="title" x="24" y="{top + 24:g}">{escape(name)}</text>')
        parts.append(f'<g transform="translate(0 {top + _TITLE_SPACE:g})">{text}</g>')
        top += _TITLE_SPACE + height
    body = "\n".join(parts)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="ar" '
        f'viewBox="0 0 {width:g} {top:g}" width="{width:g}" height="{top:g}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" style="fill: #fff; stroke: none"/>\n{body}\n</svg>\n'
    )


def fill_of(functions: Sequence[FunctionReport]) -> Mapping[str, str]:
    """The fill colour of each target."""
    return fills_of(target for function in functions for target in targets_of(function))


def targets_of(function: FunctionReport) -> list[str]:
    """All targets in the report of a function: those with regions first, then those with claims."""
    placed = [region.target for region in function.regions]
    return [*placed, *(target for op in function.ops for target in op.claims), *function.unavailable]


def drawing_of(
    picture: Picture, fills: Mapping[str, str], link: str | None = None
) -> tuple[str, tuple[float, float]]:
    """A picture as SVG elements, with its width and height.

    Parameters
    ----------
    picture
        The picture.
    fills
        The colour of each target.
    link
        The link target of region boxes, to which the region id is appended; None for no links.
    """
    layout = layout_of(picture)
    drawn = (_lines(picture, layout), _boxes(picture, layout, fills, link), _labels(picture, layout))
    parts = [_HEAD, *chain.from_iterable(drawn)]
    return "\n".join(parts), (layout.width, layout.height)


def _lines(picture: Picture, layout: PlacedPicture) -> Iterator[str]:
    for line, points in zip(picture.lines, layout.lines, strict=True):
        title = f"<title>{escape(_crossing(line))}</title>"
        yield f'<path d="{_curve(points)}" marker-end="url(#ar-head)">{title}</path>'


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    """A path through the points: straight where it goes down, curved where it changes columns."""
    steps = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        straight = f"L{to_x:g} {to_y:g}"
        steps.append(straight if x == to_x else f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}")
    return "".join(steps)


def _labels(picture: Picture, layout: PlacedPicture) -> Iterator[str]:
    read = Counter(line.source for line in picture.lines)
    fed = Counter(line.target for line in picture.lines)
    for line, points in zip(picture.lines, layout.lines, strict=True):
        (x, y), (to_x, to_y) = points[-2], points[-1]
        # Near the arrowhead, where lines of one source have separated; near the tail if lines meet in one
        # target.
        meets = fed[line.target] > read[line.source]
        at = (x + 0.1 * (to_x - x), y + 16) if meets else (x + 0.85 * (to_x - x), to_y - 16)
        yield f'<text class="bytes" x="{at[0]:g}" y="{at[1]:g}">{escape(size_of(line))}</text>'


def _crossing(line: Line) -> str:
    return f"{counted(line.values, 'value')}, {size_of(line)}"


def size_of(line: Line) -> str:
    """The label of a line: its bytes, or a type where extents are symbolic."""
    return line.text or amount(line.bytes)


def amount(size: int | None) -> str:
    """A number of bytes with a binary unit."""
    if size is None:
        return "? B"
    scaled = float(size)
    for unit in ("B", "KiB", "MiB"):
        if scaled < 1024:
            return f"{scaled:.3g} {unit}"
        scaled /= 1024
    return f"{scaled:.3g} GiB"


def _boxes(
    picture: Picture, layout: PlacedPicture, fills: Mapping[str, str], link: str | None
) -> Iterator[str]:
    measured = measured_fills(picture)
    for number, (box, placed) in enumerate(zip(picture.boxes, layout.boxes, strict=True)):
        fill = measured[number] or fills[box.target]
        drawn = "".join(_box(box, placed, fill))
        leads = link is not None and box.region is not None
        yield f'<a href="{link}{box.region}">{drawn}</a>' if leads else f"<g>{drawn}</g>"


def measured_fills(picture: Picture) -> list[str | None]:
    """The colour of each box's verdict, else of its time; None if it has neither."""
    slowest = max((box.seconds or 0.0 for box in picture.boxes), default=0.0)
    return [_measured_fill(box, slowest) for box in picture.boxes]


def _measured_fill(box: Box, slowest: float) -> str | None:
    if box.verdict is not None:
        return fill_of_verdict(box.verdict)
    return None if box.seconds is None else heat(box.seconds, slowest)


def _box(box: Box, placed: Placed, fill: str) -> Iterator[str]:
    kinds = [*(["contested"] if box.contested else []), *(["wrong"] if box.is_wrong else [])]
    marked = f' class="{" ".join(kinds)}"' if kinds else ""
    yield f"<title>{escape(chr(10).join((box.title, *box.lines)))}</title>"
    yield (
        f'<rect{marked} x="{placed.x:g}" y="{placed.y:g}" width="{WIDTH:g}" height="{placed.height:g}" '
        f'rx="5" style="fill: {fill}"/>'
    )
    for number, line in enumerate((box.title, *box.lines)):
        kind = ' class="title"' if number == 0 else ""
        y = placed.y + PADDING + TEXT * (number + 0.8)
        yield f'<text{kind} x="{placed.x + PADDING:g}" y="{y:g}">{escape(_cut(line))}</text>'


def _cut(line: str) -> str:
    return line if len(line) <= _LETTERS else line[: _LETTERS - 1] + "\u2026"
