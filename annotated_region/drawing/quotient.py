"""Folds a function into boxes: one for each region, and one for host ops with no region between them.

Two host ops share a box if they are connected and have equal depth, where the depth of a node is the number
of changes between host and regions on the longest path to it. A path that leaves such a box and re-enters it
would pass through a region, so its end would be deeper; hence the boxes form an acyclic graph for any
regions.

If that leaves too many boxes, all regions of one target with equal depth share a box, and so do all host ops,
where the depth now counts changes of the target. Values that skip many of these boxes are listed as text in
the box that reads them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx

from annotated_region.findings.function_report import FunctionReport, OpReport, RegionReport, ValueReport
from annotated_region.findings.verdicts import Verdict, words_for_verdict, worst_verdict
from annotated_region.findings.wording import words_for_seconds
from annotated_region.printable import counted

__all__ = ["Box", "Line", "Picture", "quotient"]

PARAMETERS, RESULT = "parameters", "result"
_KINDS_SHOWN = 7
_NAME_SHOWN = 40  # characters
_BOXES_SHOWN = 150  # the second folding applies above this
_FAR = 3  # the most changes of the target along a line, in a picture folded twice

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a picture.

    Attributes
    ----------
    title
        Its first line.
    lines
        The lines below it.
    target
        The target that runs it; "host", or "" for parameters and the result.
    region
        The id of its region, if it has exactly one.
    ops
        The positions of its ops in the report.
    seconds
        The measured time of its regions; None without a profile.
    verdict
        The worst verdict on its regions; None without a check.
    contested
        Whether another target claims some of its ops, too.
    """

    title: str
    lines: tuple[str, ...]
    target: str
    region: int | None = None
    ops: tuple[int, ...] = ()
    seconds: float | None = None
    verdict: Verdict | None = None
    contested: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether one of its regions is wrong or fails."""
        return self.verdict in (Verdict.WRONG, Verdict.FAILS)


@dataclass(frozen=True, slots=True)
class Line:
    """The values between two boxes.

    Attributes
    ----------
    source, target
        The positions of the boxes.
    values
        The number of values.
    bytes
        Their total size; None if one is known only at run time.
    text
        The label if the size is unknown: the type of the only value, or the number of values.
    """

    source: int
    target: int
    values: int
    bytes: int | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and the lines between them; lines lead from earlier to later ops."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def quotient(function: FunctionReport) -> Picture:
    """The function with its regions folded. O(ops + values), times the readers of a value."""
    boxes = _folded(function)
    if len(set(boxes)) <= _BOXES_SHOWN:
        return _picture(function, boxes)
    boxes, depth = _folded_by_target(function)
    return _without_far_lines(_picture(function, boxes), depth)


def _folded(function: FunctionReport) -> list[int]:
    """The box of each op."""
    keys, graph = _regions_and_ops(function)
    depth: dict[_Key, int] = {}
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


def _folded_by_target(function: FunctionReport) -> tuple[list[int], list[int]]:
    """The box of each op, and the depth of each box.

    A line between different boxes leads to a greater depth, because it changes the target or stays within it
    and ends deeper.
    """
    keys, graph = _regions_and_ops(function)
    target = dict(zip(keys, (op.placed for op in function.ops), strict=True))
    depth: dict[_Key, int] = {}
    for key in networkx.topological_sort(graph):
        steps = [depth[before] + (target[key] != target[before]) for before in graph.predecessors(key)]
        depth[key] = max(steps, default=0)
    box_of: dict[_Key, int] = {}
    boxes = [box_of.setdefault((target[key], depth[key]), len(box_of)) for key in keys]
    return boxes, [deep for _target, deep in box_of]


def _regions_and_ops(function: FunctionReport) -> tuple[list[_Key], networkx.DiGraph]:
    """A key for each op, shared by all ops of a region, and the graph of the keys."""
    keys = [
        ("region", op.region) if op.region is not None else ("op", at) for at, op in enumerate(function.ops)
    ]
    graph = networkx.DiGraph()
    graph.add_nodes_from(keys)
    for producer, consumer in _op_edges(function):
        if keys[producer] != keys[consumer]:
            graph.add_edge(keys[producer], keys[consumer])
    return keys, graph


def _without_far_lines(picture: Picture, depth: Sequence[int]) -> Picture:
    """The picture with lines that pass many boxes replaced by text; `depth` has the depth of each box."""
    far = [line for line in picture.lines if line.target < len(depth) and _is_far(line, depth)]
    sources: dict[int, list[Line]] = {}
    for line in far:
        sources.setdefault(line.target, []).append(line)
    boxes = list(picture.boxes)
    for target, lines in sources.items():
        values = sum(line.values for line in lines)
        text = f"{counted(values, 'value')} of {len(lines)} boxes above"
        boxes[target] = replace(boxes[target], lines=(*boxes[target].lines, text))
    dropped = set(far)
    return Picture(tuple(boxes), tuple(line for line in picture.lines if line not in dropped))


def _is_far(line: Line, depth: Sequence[int]) -> bool:
    start = depth[line.source] if line.source < len(depth) else 0
    return depth[line.target] - start > _FAR


def _op_edges(function: FunctionReport) -> Iterator[tuple[int, int]]:
    for value in function.values:
        if value.producer is not None:
            yield from ((value.producer, consumer) for consumer in value.consumers)


def _picture(function: FunctionReport, box_of: Sequence[int]) -> Picture:
    """The picture with op `i` in box ``box_of[i]``; the boxes of parameters and result come last."""
    held: dict[int, list[int]] = {}
    for position, box in enumerate(box_of):
        held.setdefault(box, []).append(position)
    regions = {region.id: region for region in function.regions}
    boxes = [_box(function, tuple(held[index]), regions) for index in range(len(held))]
    first, last = len(boxes), len(boxes) + 1
    crossing: dict[tuple[int, int], list[ValueReport]] = {}
    for value in function.values:
        source = first if value.producer is None else box_of[value.producer]
        readers = dict.fromkeys(box_of[consumer] for consumer in value.consumers)
        for target in (*readers, *([last] if value.result else [])):
            if target != source:
                crossing.setdefault((source, target), []).append(value)
    lines = tuple(_line(ends, values) for ends, values in crossing.items())
    ends = (Box(PARAMETERS, (), ""), Box(RESULT, (), ""))
    return Picture((*boxes, *ends), lines)


def _line(ends: tuple[int, int], values: Sequence[ValueReport]) -> Line:
    total = _total([value.bytes for value in values])
    text = "" if total is not None else values[0].type_phrase if len(values) == 1 else f"{len(values)} values"
    return Line(*ends, len(values), total, text)


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _box(function: FunctionReport, positions: tuple[int, ...], region_of: Mapping[int, RegionReport]) -> Box:
    ops = [function.ops[position] for position in positions]
    target = ops[0].placed
    regions = list(dict.fromkeys(op.region for op in ops))
    region = regions[0] if len(regions) == 1 else None
    title = target if region is None else f"{target}, region {region}"
    if len(regions) > 1:
        title = f"{target}, {len(regions)} regions"
    reports = [region_of[each] for each in sorted(each for each in regions if each is not None)]
    seconds, timed = _timed(reports)
    verdict, found = _checked(reports)
    findings, claims = (*found, *timed), _other_claims(ops)
    if len(ops) == 1:
        lines = (_short(ops[0].op), _fitting(ops[0].called), *findings, *claims)
    else:
        title, lines = f"{title}: {len(ops)} ops", (*findings, *_kinds(ops), *claims)
    return Box(title, lines, target, region, positions, seconds, verdict, contested=bool(claims))


def _kinds(ops: Sequence[OpReport]) -> Iterator[str]:
    """The most frequent ops with their counts, and the number of others."""
    kinds = Counter(_short(op.op) for op in ops)
    for name, count in kinds.most_common(_KINDS_SHOWN):
        yield f"{name} x{count}" if count > 1 else name
    if len(kinds) > _KINDS_SHOWN:
        yield f"and {len(kinds) - _KINDS_SHOWN} more kinds"


def _timed(regions: Iterable[RegionReport]) -> tuple[float | None, tuple[str, ...]]:
    """The total time of some regions, as a number and in words."""
    known = [region for region in regions if region.seconds is not None]
    if not known:
        return None, ()
    seconds = math.fsum(region.seconds or 0.0 for region in known)
    expected = [region.expected for region in known if region.expected is not None]
    return seconds, (words_for_seconds(seconds, math.fsum(expected) if expected else None),)


def _checked(regions: Iterable[RegionReport]) -> tuple[Verdict | None, tuple[str, ...]]:
    """The worst verdict on some regions, and its text."""
    known = [region.checked for region in regions if region.checked]
    worst = worst_verdict(known)
    return (None, ()) if worst is None else (worst.verdict, (words_for_verdict(worst),))


def _other_claims(ops: Sequence[OpReport]) -> tuple[str, ...]:
    """How many of the ops each other target claims."""
    others = Counter(target for op in ops for target in op.claims if target != op.placed)
    return tuple(
        f"{count} claimed by {target}, too" if len(ops) > 1 else f"claimed by {target}, too"
        for target, count in others.items()
    )


def _fitting(name: str) -> str:
    """The end of a long name; names of nodes are paths."""
    return name if len(name) <= _NAME_SHOWN else f"...{name[-_NAME_SHOWN:]}"


def _short(op: str) -> str:
    return op.removeprefix("relax.")
