"""The report of one function: its ops, regions and values, who claimed what, and who got it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from annotated_region.costs.model import HOST
from annotated_region.findings.wording import (
    words_for_claims,
    words_for_counts,
    words_for_host,
    words_for_neighbours,
    words_for_time,
    words_for_work,
)

__all__ = [
    "ApartReport",
    "DissolvedReport",
    "FunctionReport",
    "OpReport",
    "RegionReport",
    "ValueReport",
    "told_origin",
]

_APART_SHOWN = 8  # pairs of regions in the summary


@dataclass(frozen=True, slots=True)
class OpReport:
    """What became of one op.

    Attributes
    ----------
    name, op
        The variable that it is bound to, and what it computes.
    placed
        The target that got it, or "host".
    region
        The id of its region; None on the host.
    claims
        For each target that claims it, what claims it: the rule of its op, or patterns.
    declines
        For each target that does not, why.
    lost
        For each target that claims it and did not get it, to whom it was lost, and why.
    costs
        What the op costs by itself, in seconds, on the host and on each target that claims it alone; empty
        unless the policy goes by costs. The placement also counts launches, and what it takes to move values.
    origin
        What it was made from: an ONNX node, a PyTorch module and a line of its source, or the first name of
        the binding.
    key
        A name that means this op alone among those of its function, for pins and bans.
    inputs, output
        The types of its arguments and of its result, such as ``"float32[1, 3, 224, 224]"``.
    flops, bytes
        Its work: floating point operations, and bytes read and written; None if a shape is only known when
        it runs, or what it computes is not known.
    composite
        The pattern that claims it together with others in its region, and a sign that those others share:
        ``"dnnl.conv2d_bias_relu#3fa2c1"``; empty if it is there by itself.
    fingerprint
        Two digests, of the op alone and of it with its neighbours, by which locks find it in an edited model.
    """

    name: str
    op: str
    placed: str
    region: int | None
    claims: dict[str, tuple[str, ...]]
    declines: dict[str, str]
    lost: dict[str, str] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    origin: str = ""
    key: str = ""
    inputs: tuple[str, ...] = ()
    output: str = ""
    flops: int | None = None
    bytes: int | None = None
    composite: str = ""
    fingerprint: str = ""

    @property
    def called(self) -> str:
        """What people call it: what it was made from, if that is known, else its name."""
        return self.origin or self.name

    @property
    def types(self) -> str:
        """The types of its arguments and of its result, in words."""
        return f"{', '.join(self.inputs)} -> {self.output}"

    @property
    def work(self) -> str:
        """Its work in words; empty if that is not known."""
        return words_for_work(self.flops, self.bytes)

    @property
    def first_reason(self) -> str:
        """To whom the first target that claims it lost it, or why the first one declines it; or empty."""
        for target, words in self.lost.items():
            return f"lost by {target} {words}"
        return next((f"declined by {target}: {why}" for target, why in self.declines.items()), "")

    @property
    def why(self) -> str:
        """Who claims it, who lost it, who declines it, and why."""
        return words_for_claims(self.claims, self.lost, self.declines)


@dataclass(frozen=True, slots=True)
class RegionReport:
    """One region: its target, and the names of its ops, inputs, outputs and composites.

    Attributes
    ----------
    symbol
        Its external function, where a profile is told beside the placement; else empty.
    seconds
        What it took in a run, as measured; None where there is no profile.
    expected
        What the policy expects of its ops together, if it goes by costs, without launches and transfers.
    """

    id: int
    target: str
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    composites: tuple[str, ...]
    symbol: str = ""
    seconds: float | None = None
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class ApartReport:
    """Two neighbouring regions of one target, each by an op, and the op that stands between them, if any."""

    target: str
    left: str
    right: str
    between: str | None


class DissolvedReport(NamedTuple):
    """A region that was given back: its target, its ops, and why."""

    target: str
    ops: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ValueReport:
    """One value on its way through a function.

    Attributes
    ----------
    name
        The variable, with the path of fields if it is a part of a tuple.
    producer
        The position of the op that makes it among the ops of the report; None for a parameter.
    consumers
        The positions of the ops that read it, in program order.
    result
        Whether the function returns it.
    bytes
        Its size; None if that is not known before the function runs.
    """

    name: str
    producer: int | None
    consumers: tuple[int, ...]
    result: bool
    bytes: int | None


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """One function: its ops in program order, its regions, what the passes noted, and its values."""

    name: str
    ops: tuple[OpReport, ...]
    regions: tuple[RegionReport, ...]
    unavailable: dict[str, str]
    apart: tuple[ApartReport, ...]
    dissolved: tuple[DissolvedReport, ...]
    resolution: dict[str, Any]
    values: tuple[ValueReport, ...] = ()

    def summary(self) -> Iterator[str]:
        """One line a target, then one for the host."""
        claimed = Counter(target for op in self.ops for target in op.claims)
        won = Counter(op.placed for op in self.ops)
        regions = Counter(region.target for region in self.regions)
        for target in dict.fromkeys((*claimed, *regions, *self.unavailable)):
            yield words_for_counts(
                target,
                ops=won[target],
                total=len(self.ops),
                regions=regions[target],
                claimed=claimed[target],
                unavailable=self.unavailable.get(target),
            )
        stay = [op for op in self.ops if op.placed == HOST]
        yield words_for_host((op.op, told_origin(op), op.declines, op.lost) for op in stay)
        called = {op.name: op.called for op in self.ops}
        for each in self.apart[:_APART_SHOWN]:
            left, right = called.get(each.left, each.left), called.get(each.right, each.right)
            between = None if each.between is None else called.get(each.between, each.between)
            yield words_for_neighbours(each.target, left, right, between)
        for region in self.regions:
            if region.seconds is not None:
                yield words_for_time(region.id, region.target, region.symbol, region.seconds, region.expected)
        if len(self.apart) > _APART_SHOWN:
            yield f"and {len(self.apart) - _APART_SHOWN} more pairs of regions are kept apart"

    def details(self) -> Iterator[str]:
        """One line an op: what it is called, what it computes on what, its work, where it went, and why."""
        for op in self.ops:
            place = op.placed if op.region is None else f"{op.placed}, region {op.region}"
            parts = (f"{op.op.removeprefix('relax.')}: {op.types}", op.work, place, op.why)
            yield f"{op.key or op.name} = {'; '.join(part for part in parts if part)}"


def told_origin(op: OpReport) -> str:
    """What an op was made from, if that is more than its name."""
    return "" if op.origin == op.name else op.origin
