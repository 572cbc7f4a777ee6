"""The data of the page's script: the ops of each function, their boxes when folded, the edges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from annotated_region.drawing.quotient import Picture
from annotated_region.drawing.svg import amount, measured_fills
from annotated_region.findings.function_report import FunctionReport, OpReport, ValueReport
from annotated_region.findings.wording import words_for_seconds
from annotated_region.printable import printable

__all__ = ["module_path", "viewer_data"]

_DETAIL = re.compile(r"( \([^()]*:\d+\))?(#\d+)?$")
"""The suffix of a path: a line of PyTorch source, the number among ops of one origin."""


def viewer_data(
    functions: Sequence[FunctionReport], pictures: Sequence[Picture], fills: Mapping[str, str]
) -> str:
    """The data as JSON that is safe inside a script element: ASCII, without ``<`` and ``&``.

    Parameters
    ----------
    functions
        The reports.
    pictures
        The picture of each function with its regions folded.
    fills
        The colour of each target.
    """
    data = {
        "fills": {printable(target): fill for target, fill in fills.items()},
        "functions": [
            _function(function, picture) for function, picture in zip(functions, pictures, strict=True)
        ],
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _function(function: FunctionReport, picture: Picture) -> dict[str, object]:
    box_of = {op: number for number, box in enumerate(picture.boxes) for op in box.ops}
    boxes = [
        {
            "title": printable(box.title),
            "lines": [printable(line) for line in box.lines],
            "target": printable(box.target),
            "contested": box.contested,
            "time": None if box.seconds is None else words_for_seconds(box.seconds, None),
            "verdict": None if box.verdict is None else box.verdict.value,
            "fill": fill,
        }
        for box, fill in zip(picture.boxes, measured_fills(picture), strict=True)
        if box.ops
    ]
    ops = [_op(op, box_of[number]) for number, op in enumerate(function.ops)]
    edges = [edge for value in function.values for edge in _edges(value)]
    return {"name": printable(function.name), "ops": ops, "boxes": boxes, "edges": edges}


def _op(op: OpReport, box: int) -> dict[str, object]:
    place = op.placed if op.region is None else f"{op.placed}, region {op.region}"
    texts = {
        "name": op.key or op.name,
        "op": op.op.removeprefix("relax."),
        "target": op.placed,
        "place": place,
        "types": op.types,
        "made": op.output,
        "work": op.work,
        "why": op.why,
    }
    shown: dict[str, object] = {name: printable(text) for name, text in texts.items()}
    return {**shown, "path": [printable(part) for part in module_path(op)], "box": box}


def _edges(value: ValueReport) -> Iterator[tuple[int, int, str]]:
    if value.producer is not None:
        label = printable(amount(value.bytes) if value.bytes is not None else value.type_phrase)
        yield from ((value.producer, consumer, label) for consumer in value.consumers)


def module_path(op: OpReport) -> list[str]:
    """The modules of an op, outermost first: the components of its key before the last slash or point."""
    key = _DETAIL.sub("", op.key)
    return [part for part in key.split("/" if "/" in key else ".")[:-1] if part]
