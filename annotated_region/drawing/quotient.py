"""What is drawn of a function: a box for each region, and one for host ops with no region between them.

Two host ops share a box if they hang together and lie equally deep, where the depth of a box counts the
changes between host and regions on the longest way to it. A way out of such a box and back into it would
pass a region and so get deeper; hence the boxes form a graph without cycles, whatever the regions are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx

if TYPE_CHECKING:
    from annotated_region.report import FunctionReport, OpReport

__all__ = ["Box", "Line", "Picture", "every_op", "quotient"]

PARAMETERS, RESULT = "parameters", "result"
_KINDS_SHOWN = 7


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a picture.

    Attributes
    ----------
    title
        Its first line.
    lines
        What stands below.
    target
        Who runs it; "host", or "" for what nobody runs.
    region
        The id of its region, if it is one.
    ops
        The positions of its ops in the report.
    """

    title: str
    lines: tuple[str, ...]
    target: str
    region: int | None = None
    ops: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """What goes from one box to another: how many values, and their bytes if all of them are known."""

    source: int
    target: int
    values: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and the lines between them; lines go from earlier to later ops."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def quotient(function: FunctionReport) -> Picture:
    """The function with its regions folded. O(ops + values), times the readers of a value."""
    return _picture(function, _folded(function))


def every_op(function: FunctionReport) -> Picture:
    """The function with a box for each op."""
    return _picture(function, list(range(len(function.ops))))


def _folded(function: FunctionReport) -> list[int]:
    """For each op, the number of its box."""
    graph = networkx.DiGraph()
    keys = [
        ("region", op.region) if op.region is not None else ("op", at) for at, op in enumerate(function.ops)
    ]
    graph.add_nodes_from(keys)
    for producer, consumer in _op_edges(function):
        if keys[producer] != keys[consumer]:
            graph.add_edge(keys[producer], keys[consumer])
    depth: dict[tuple[str, int], int] = {}
    for key in networkx.topological_sort(graph):
        steps = [depth[before] + ("region" in (key[0], before[0])) for before in graph.predecessors(key)]
        depth[key] = max(steps, default=0)
    together = networkx.Graph()
    together.add_nodes_from(graph)
    together.add_edges_from(
        (left, right)
        for left, right in graph.edges
        if left[0] == right[0] == "op" and depth[left] == depth[right]
    )
    box_of = {
        key: index for index, part in enumerate(networkx.connected_components(together)) for key in part
    }
    return [box_of[key] for key in keys]


def _op_edges(function: FunctionReport) -> Iterator[tuple[int, int]]:
    for value in function.values:
        if value.producer is not None:
            yield from ((value.producer, consumer) for consumer in value.consumers)


def _picture(function: FunctionReport, box_of: Sequence[int]) -> Picture:
    """The picture in which op `i` lies in box ``box_of[i]``; parameters and result come behind the others."""
    held: dict[int, list[int]] = {}
    for position, box in enumerate(box_of):
        held.setdefault(box, []).append(position)
    boxes = [_box(function, tuple(held[index])) for index in range(len(held))]
    first, last = len(boxes), len(boxes) + 1
    crossing: dict[tuple[int, int], list[int | None]] = {}
    for value in function.values:
        source = first if value.producer is None else box_of[value.producer]
        readers = dict.fromkeys(box_of[consumer] for consumer in value.consumers)
        for target in (*readers, *([last] if value.result else [])):
            if target != source:
                crossing.setdefault((source, target), []).append(value.bytes)
    lines = tuple(Line(*ends, len(sizes), _total(sizes)) for ends, sizes in crossing.items())
    ends = (Box(PARAMETERS, (), ""), Box(RESULT, (), ""))
    return Picture((*boxes, *ends), lines)


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _box(function: FunctionReport, positions: tuple[int, ...]) -> Box:
    ops = [function.ops[position] for position in positions]
    target, region = ops[0].placed, ops[0].region
    title = target if region is None else f"{target}, region {region}"
    if len(ops) == 1:
        names = [_short(ops[0].op), ops[0].name]
        return Box(title, (*names, *_contested(ops)), target, region, positions)
    kinds = Counter(_short(op.op) for op in ops)
    shown = [f"{name} x{count}" if count > 1 else name for name, count in kinds.most_common(_KINDS_SHOWN)]
    rest = len(kinds) - _KINDS_SHOWN
    more = [f"and {rest} more kinds"] if rest > 0 else []
    return Box(f"{title}: {len(ops)} ops", (*shown, *more, *_contested(ops)), target, region, positions)


def _contested(ops: Sequence[OpReport]) -> Iterator[str]:
    """Who else claims how many of the ops."""
    others = Counter(target for op in ops for target in op.claims if target != op.placed)
    for target, count in others.items():
        yield f"{count} claimed by {target}, too" if len(ops) > 1 else f"claimed by {target}, too"


def _short(op: str) -> str:
    return op.removeprefix("relax.")


def colours(targets: Sequence[str]) -> Mapping[str, int]:
    """A number for each target, in the order given; the host and what nobody runs have none."""
    named = dict.fromkeys(target for target in targets if target not in ("host", ""))
    return {target: number for number, target in enumerate(named)}
