"""SVG: boxes in the colour of their target, lines with the bytes that cross."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from annotated_region.drawing.escaping import escape
from annotated_region.drawing.layout import PADDING, TEXT, WIDTH, Placed, PlacedPicture, layout_of
from annotated_region.drawing.quotient import Box, Line, Picture, colours, quotient
from annotated_region.findings.function_report import FunctionReport

__all__ = ["STYLE", "amount", "fill_of", "drawing_of", "heat", "svg_of", "targets_of"]

_LETTERS = 31  # of a line that fit into a box
_TITLE_SPACE = 34.0
# Fill colours that black text can be read on (after Paul Tol's "light" scheme), for targets in their order.
_FILLS = ("#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00")
# From fast to slow; black text can be read on all of them.
_HEAT = ((255, 255, 212), (254, 196, 79), (240, 105, 80))
_HOST, _NOBODY = "#dddddd", "#ffffff"

STYLE = """\
.ar text { font: 12px sans-serif; fill: #111; }
.ar .title { font-weight: bold; }
.ar .bytes { font-size: 11px; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.ar rect { stroke: #555; stroke-width: 1; }
.ar .contested { stroke: #c00; stroke-width: 2; stroke-dasharray: 6 3; }
.ar path { fill: none; stroke: #777; stroke-width: 1.2; }
"""


def svg_of(functions: Sequence[FunctionReport]) -> str:
    """The quotient graphs of all functions below each other, as one file."""
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
    named = colours([target for function in functions for target in targets_of(function)])
    fills = {target: _FILLS[number % len(_FILLS)] for target, number in named.items()}
    return {**fills, "host": _HOST, "": _NOBODY}


def targets_of(function: FunctionReport) -> list[str]:
    """The targets that a function meets: those with regions first, then those that claim."""
    placed = [region.target for region in function.regions]
    return [*placed, *(target for op in function.ops for target in op.claims), *function.unavailable]


def drawing_of(
    picture: Picture, fills: Mapping[str, str], link: str | None = None
) -> tuple[str, tuple[float, float]]:
    """A picture as SVG elements, with its width and height.

    Parameters
    ----------
    picture
        What to draw.
    fills
        The colour of each target.
    link
        Where a box of a region leads, the id of the region to be put behind it; None for nowhere.
    """
    layout = layout_of(picture)
    parts = [*_lines(picture, layout), *_boxes(picture, layout, fills, link), *_labels(picture, layout)]
    return "\n".join(parts), (layout.width, layout.height)


def _lines(picture: Picture, layout: PlacedPicture) -> Iterator[str]:
    for line, points in zip(picture.lines, layout.lines, strict=True):
        yield f'<path d="{_curve(points)}"><title>{escape(_crossing(line))}</title></path>'


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    """A smooth line through the points that leaves and enters them upright."""
    steps = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        steps.append(f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}")
    return "".join(steps)


def _labels(picture: Picture, layout: PlacedPicture) -> Iterator[str]:
    for line, points in zip(picture.lines, layout.lines, strict=True):
        (x, y), (to_x, to_y) = points[0], points[1]
        # Nearer to the target, where lines that leave the same box have parted already.
        yield (
            f'<text class="bytes" x="{x + 0.7 * (to_x - x):g}" y="{y + 0.7 * (to_y - y):g}">'
            f"{escape(amount(line.bytes))}</text>"
        )


def _crossing(line: Line) -> str:
    return f"{line.values} value{'s' if line.values != 1 else ''}, {amount(line.bytes)}"


def amount(size: int | None) -> str:
    """A number of bytes as people write it."""
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
    slowest = max((box.seconds or 0.0 for box in picture.boxes), default=0.0)
    for box, placed in zip(picture.boxes, layout.boxes, strict=True):
        fill = fills[box.target] if box.seconds is None else heat(box.seconds, slowest)
        drawn = "".join(_box(box, placed, fill))
        leads = link is not None and box.region is not None
        yield f'<a href="{link}{box.region}">{drawn}</a>' if leads else f"<g>{drawn}</g>"


def heat(seconds: float, slowest: float) -> str:
    """The colour of a time: pale yellow for none, through orange to red for the slowest."""
    share = min(1.0, max(0.0, seconds / slowest)) if slowest > 0 else 0.0
    position = share * (len(_HEAT) - 1)
    first = min(int(position), len(_HEAT) - 2)
    part = position - first
    channels = zip(_HEAT[first], _HEAT[first + 1], strict=True)
    return "#" + "".join(f"{round(low + part * (high - low)):02x}" for low, high in channels)


def _box(box: Box, placed: Placed, fill: str) -> Iterator[str]:
    contested = ' class="contested"' if any(line.endswith(", too") for line in box.lines) else ""
    yield f"<title>{escape(chr(10).join((box.title, *box.lines)))}</title>"
    yield (
        f'<rect{contested} x="{placed.x:g}" y="{placed.y:g}" width="{WIDTH:g}" height="{placed.height:g}" '
        f'rx="5" style="fill: {fill}"/>'
    )
    for number, line in enumerate((box.title, *box.lines)):
        kind = ' class="title"' if number == 0 else ""
        y = placed.y + PADDING + TEXT * (number + 0.8)
        yield f'<text{kind} x="{placed.x + PADDING:g}" y="{y:g}">{escape(_cut(line))}</text>'


def _cut(line: str) -> str:
    return line if len(line) <= _LETTERS else line[: _LETTERS - 1] + "\u2026"
