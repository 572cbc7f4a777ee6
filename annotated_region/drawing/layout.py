"""Places boxes in layers with few edge crossings: python-igraph's Sugiyama layout.

K. Sugiyama, S. Tagawa, M. Toda: Methods for visual understanding of hierarchical system structures, 1981.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from annotated_region.drawing.quotient import PARAMETERS, RESULT, Picture
from annotated_region.errors import DrawingError
from annotated_region.graphs import Dag

__all__ = ["Placed", "PlacedPicture", "layout_of"]

WIDTH, TEXT, PADDING = 210.0, 15.0, 8.0
GAP, LAYER_GAP = 24.0, 56.0
_ROUNDS = 100  # of crossing reduction

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of a box: its upper left corner and its height."""

    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """The positions of boxes and the points of lines, in the order of the picture, and its size."""

    boxes: tuple[Placed, ...]
    lines: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layout_of(picture: Picture) -> PlacedPicture:
    """Place a picture. A line that skips layers has a free column in each of them.

    Raises
    ------
    DrawingError
        The layout engine is not installed.
    """
    layers = _layers(picture)
    routes, all_layers, edges = _with_bends(picture, layers)
    columns = _columns(edges, all_layers)
    heights = [2 * PADDING + TEXT * (1 + len(box.lines)) for box in picture.boxes]
    depth = _depths(layers, heights)
    tops = _tops(depth)
    left = min(columns, default=0.0)
    centres = [(column - left) * (WIDTH + GAP) + WIDTH / 2 + GAP for column in columns]
    boxes = tuple(
        Placed(centres[index] - WIDTH / 2, tops[layers[index]], height)
        for index, height in enumerate(heights)
    )
    lines = tuple(
        _points(
            boxes,
            centres,
            route,
            [tops[all_layers[each]] for each in route],
            [tops[all_layers[each]] + depth[all_layers[each]] for each in route],
        )
        for route in routes
    )
    bottom = max((box.y + box.height for box in boxes), default=0.0)
    return PlacedPicture(boxes, lines, max(centres, default=0.0) + WIDTH / 2 + GAP, bottom + GAP)


def _layers(picture: Picture) -> list[int]:
    """The layer of each box: below all boxes that it reads. O(boxes + lines)."""
    outputs: list[list[int]] = [[] for _box in picture.boxes]
    for line in picture.lines:
        outputs[line.source].append(line.target)
    layers = [0] * len(picture.boxes)
    for index in Dag(outputs).topological():
        for target in outputs[index]:
            layers[target] = max(layers[target], layers[index] + 1)
    return _ends_outside(picture, layers)


def _ends_outside(picture: Picture, layers: list[int]) -> list[int]:
    """Move the parameters above all other layers, and the result below."""
    titles = [box.title for box in picture.boxes]
    inner = [layer + 1 for layer in layers]
    inner[titles.index(PARAMETERS)] = 0
    inner[titles.index(RESULT)] = 0
    inner[titles.index(RESULT)] = max(inner) + 1
    used = {layer: number for number, layer in enumerate(sorted(set(inner)))}
    return [used[layer] for layer in inner]


def _with_bends(
    picture: Picture, layers: Sequence[int]
) -> tuple[list[list[int]], list[int], list[tuple[int, int]]]:
    """The vertices of each line, with a dummy vertex per skipped layer; the layers of all vertices; all
    edges.
    """
    all_layers, routes, edges = list(layers), [], []
    for line in picture.lines:
        route = [line.source]
        for layer in range(layers[line.source] + 1, layers[line.target]):
            route.append(len(all_layers))
            all_layers.append(layer)
        route.append(line.target)
        routes.append(route)
        edges += list(pairwise(route))
    return routes, all_layers, edges


def _columns(edges: list[tuple[int, int]], layers: list[int]) -> list[float]:
    try:
        import igraph  # noqa: PLC0415 - an extra that only pictures need
    except ImportError as error:
        raise DrawingError("pictures need python-igraph: pip install 'annotated-region[draw]'") from error
    graph = igraph.Graph(n=len(layers), edges=edges, directed=True)
    placed = graph.layout_sugiyama(layers=layers, hgap=1, vgap=1, maxiter=_ROUNDS)
    return [float(x) for x, _y in placed.coords[: len(layers)]]


def _depths(layers: Sequence[int], heights: Sequence[float]) -> dict[int, float]:
    """The height of the highest box of each layer, from the first layer to the last."""
    depths = dict.fromkeys(sorted({*layers}), 0.0)
    for layer, height in zip(layers, heights, strict=True):
        depths[layer] = max(depths[layer], height)
    return depths


def _tops(depths: Mapping[int, float]) -> dict[int, float]:
    tops: dict[int, float] = {}
    top = GAP
    for layer, depth in depths.items():
        tops[layer] = top
        top += LAYER_GAP + depth
    return tops


def _points(
    boxes: Sequence[Placed],
    centres: Sequence[float],
    route: Sequence[int],
    tops: Sequence[float],
    bottoms: Sequence[float],
) -> tuple[Point, ...]:
    """The points of a line, which changes columns only between layers, so that it crosses no box.

    `tops` and `bottoms` are those of the layers on its route.
    """
    source, target = route[0], route[-1]
    points: list[Point] = [
        (centres[source], boxes[source].y + boxes[source].height),
        (centres[source], bottoms[0]),
    ]
    for bend, top, bottom in zip(route[1:-1], tops[1:-1], bottoms[1:-1], strict=True):
        points += [(centres[bend], top), (centres[bend], bottom)]
    return (*points, (centres[target], boxes[target].y))
