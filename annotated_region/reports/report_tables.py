"""The tables of the report of a function: sums by target, regions, host ops, all ops."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from annotated_region.costs.model import HOST
from annotated_region.findings.function_report import FunctionReport, RegionReport
from annotated_region.findings.host_ops import host_groups
from annotated_region.findings.op_report import OpReport
from annotated_region.findings.wording import words_for_seconds, words_for_work
from annotated_region.reports.text_table import text_table

__all__ = ["host_table", "op_table", "region_table", "sums_table", "tables_of"]

_TENSOR = re.compile(r"(\w+)\[([^\[\]]*)\]")
"""A type as text: ``float32[1, 3, 224, 224]``."""


def tables_of(function: FunctionReport, width: int) -> Iterator[str]:
    """The sums by target, the host ops if there are any, and all ops."""
    yield sums_table(function, width)
    yield from host_table(function, width)
    yield op_table(function, width)


def sums_table(function: FunctionReport, width: int) -> str:
    """The sums of each target and the host: regions, ops, work, and time if there is a profile."""
    timed = any(region.seconds is not None for region in function.regions)
    heads = ("target", "regions", "ops", "share", "claims", "work", *(("time",) if timed else ()))
    claims = Counter(target for op in function.ops for target in op.claims)
    places = dict.fromkeys((*(region.target for region in function.regions), *claims, HOST))
    rows = [
        (*_sums(function, place, claims[place]), *((_time(function, place),) if timed else ()))
        for place in places
    ]
    title = f"Targets of {function.name}, {len(function.ops)} ops"
    return text_table(title, heads, rows, width, frozenset({"regions", "ops", "share", "claims", "time"}))


def _sums(function: FunctionReport, place: str, claims: int) -> tuple[str, ...]:
    ops = [op for op in function.ops if op.placed == place]
    regions = sum(region.target == place for region in function.regions)
    share = f"{100 * len(ops) / len(function.ops):.3g} %" if ops else "-"
    counted = ("" if place == HOST else str(regions), str(len(ops)), share)
    return place, *counted, "" if place == HOST else str(claims), _work(ops)


def _work(ops: Sequence[OpReport]) -> str:
    """The total work of some ops, and the number of ops whose work is unknown."""
    words = words_for_work(sum(op.flops or 0 for op in ops), sum(op.bytes or 0 for op in ops))
    unknown = sum(op.flops is None for op in ops)
    return f"{words or '-'}, without {unknown} of unknown work" if unknown else words


def _time(function: FunctionReport, place: str) -> str:
    seconds = [region.seconds for region in function.regions if region.target == place]
    known = [each for each in seconds if each is not None]
    return words_for_seconds(math.fsum(known), None) if known else ""


def region_table(function: FunctionReport, width: int) -> str:
    """One line per region, with the composites in it."""
    heads = ("region", "target", "ops", "inputs", "outputs", "composites")
    held = Counter(op.region for op in function.ops)
    rows = [_region_cells(region, held[region.id]) for region in function.regions]
    return text_table(
        f"Regions of {function.name}", heads, rows, width, frozenset({"region", "ops", "inputs"})
    )


def _region_cells(region: RegionReport, ops: int) -> tuple[str, ...]:
    counts = Counter(name.removeprefix(f"{region.target}.") for name in region.composites)
    composites = (f"{name} x{count}" if count > 1 else name for name, count in counts.items())
    numbers = (str(region.id), region.target, str(ops), str(len(region.inputs)))
    return (*numbers, ", ".join(region.outputs), ", ".join(composites))


def host_table(function: FunctionReport, width: int) -> Iterator[str]:
    """The ops on the host by kind and reason; nothing if there are none."""
    rows = [
        (group.op, str(group.count), group.first, "; ".join(group.reasons).replace("relax.", ""))
        for group in host_groups(function.ops)
    ]
    if rows:
        title = f"On the host of {function.name}"
        yield text_table(title, ("op", "count", "first at", "why"), rows, width, frozenset({"count"}))


def op_table(function: FunctionReport, width: int) -> str:
    """One line per op."""
    heads = ("name", "op", "shapes", "types", "work", "target", "reason")
    rows = [_op_cells(op) for op in function.ops]
    return text_table(f"Ops of {function.name}", heads, rows, width, frozenset())


def _op_cells(op: OpReport) -> tuple[str, ...]:
    place = op.placed if op.region is None else f"{op.placed} {op.region}"
    inputs = ", ".join(map(_shapes, op.inputs))
    shapes = f"{inputs} -> {_shapes(op.output)}" if inputs else f"-> {_shapes(op.output)}"
    name = op.op.removeprefix("relax.")
    return op.key or op.name, name, shapes, _types(op), op.work, place, _reason(op).replace("relax.", "")


def _shapes(words: str) -> str:
    """The shapes in the text of a type: ``1x3x224x224``; that of a scalar is ``scalar``."""
    return _TENSOR.sub(lambda tensor: "x".join(map(_extent, tensor[2].split(", "))) or "scalar", words)


def _extent(words: str) -> str:
    """One extent, in parentheses unless it is a number or a name."""
    return words if re.fullmatch(r"\w*|\?|\.\.\.", words) else f"({words})"


def _types(op: OpReport) -> str:
    """The data types of an op: one if all are equal, otherwise those of its operands and results."""
    read = list(dict.fromkeys(kind for words in op.inputs for kind in _kinds(words)))
    made = list(dict.fromkeys(_kinds(op.output)))
    return made[0] if len(made) == 1 and read in ([], made) else f"{', '.join(read)} -> {', '.join(made)}"


def _kinds(words: str) -> list[str]:
    return [tensor[1] for tensor in _TENSOR.finditer(words)]


def _reason(op: OpReport) -> str:
    """The reason for the placement of an op: the claim and the losing targets, or why it is on none."""
    if op.placed == HOST:
        (group,) = host_groups([op])
        return "; ".join(group.reasons)
    by = op.chosen.removeprefix(f"{op.placed}.")
    others = ", ".join(op.lost)
    parts = [*([by] if by and by != op.op else []), *([f"before {others}"] if others else [])]
    return ", ".join(parts) or "claimed"
