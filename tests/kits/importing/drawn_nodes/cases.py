"""The drawn models as cases, with what ONNX Runtime answers without its optimizer."""

from __future__ import annotations

from kits.importing.drawn_nodes import contributed, elementwise, further, moving, sums, windows
from kits.importing.drawn_nodes.answers import answers_of
from kits.importing.drawn_nodes.chain_draw import ChainDraw
from kits.importing.drawn_nodes.draw import NodeDraw
from kits.importing.drawn_nodes.steadiness import is_steady
from kits.importing.node_cases import NodeCase

__all__ = ["FAMILIES", "drawn_case", "drawn_chain"]

FAMILIES = {
    name: family
    for room in (elementwise, moving, windows, sums, further, contributed)
    for name, family in room.FAMILIES.items()
}
OPSETS = (9, 11, 13, 15, 17, 18, 20, 21, 23)
TRIALS = 12
"""How many operators are drawn for one place of a chain, until one reads what is before it."""


def drawn_case(family: str, seed: int) -> NodeCase | None:
    """The model of a seed; None if ONNX Runtime refuses it: versions, types and attributes are by lot."""
    draw = NodeDraw(seed, OPSETS[seed % len(OPSETS)])
    FAMILIES[family](draw)
    model = draw.model()
    expected = answers_of(model, draw.feeds)
    if expected is None:
        return None
    given = tuple(draw.feeds[port.name] for port in model.graph.input)
    return NodeCase(f"{family} {seed}", model, ((given, tuple(expected)),))


def drawn_chain(seed: int) -> NodeCase | None:
    """Two or three operators of the families, joined; of named extents with a second call, of longer ones.

    None if no operators fit together, or if the results hang on roundings.
    """
    draw = ChainDraw(seed, OPSETS[seed % len(OPSETS)])
    for _ in range(draw.one([2, 2, 3])):
        if not any(draw.extended(FAMILIES[draw.one(list(FAMILIES))]) for _ in range(TRIALS)):
            return None
    model = draw.model()
    calls = []
    for feeds in (draw.feeds, draw.longer_feeds()):
        expected = None if feeds is None else answers_of(model, feeds)
        if feeds is not None and expected is not None and is_steady(model, feeds, expected):
            given = tuple(feeds[port.name] for port in model.graph.input)
            calls.append((given, tuple(expected)))
        elif not calls:
            return None
    return NodeCase(f"chain {seed}", model, tuple(calls))
