"""Makes the report of a run: of the regions that the passes left, and of their notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax

from annotated_region.costs.model import HOST
from annotated_region.costs.work import work_of
from annotated_region.dataflow.graph import DataflowNode, NodeKind
from annotated_region.findings.function_report import (
    ApartReport,
    DissolvedReport,
    FunctionReport,
    OpReport,
    RegionReport,
)
from annotated_region.findings.wording import (
    Loss,
    LossReason,
    words_for_dissolved,
    words_for_loss,
    words_for_refusal,
    words_for_type,
)
from annotated_region.notes import Note
from annotated_region.origins import origin_of
from annotated_region.policies.operation_names import OperationNames
from annotated_region.regions.networks import op_name_of
from annotated_region.regions.region import AnnotatedRegion
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.reports.record import FunctionRecord
from annotated_region.reports.report import Report
from annotated_region.reports.value_flow import values_of
from annotated_region.targets.extents import size_of
from annotated_region.targets.op_view import OpView

__all__ = ["report_of"]


def report_of(placed: Iterable[AnnotatedRegionSet], notes: Mapping[str, Sequence[Note]]) -> Report:
    """The report of a run.

    Parameters
    ----------
    placed
        For each function, the regions that the passes left.
    notes
        By the name of a function, what the passes noted, in order.
    """
    return Report(
        tuple(
            _function_report(regions, FunctionRecord.of(notes.get(regions.dataflow.name, ())))
            for regions in placed
        )
    )


def _function_report(regions: AnnotatedRegionSet, record: FunctionRecord) -> FunctionReport:
    graph = regions.dataflow
    keys = OperationNames.of(graph).keys()
    shown = [
        number for number, node in graph.numbered() if node.kind not in (NodeKind.LITERAL, NodeKind.STRUCTURE)
    ]
    ops = [
        _with_details(
            _op_report(node.var, op_name_of(node.value), regions.regions_of(node.var), record),
            node,
            keys.get(number, node.var.name),
        )
        for number, node in ((number, graph.nodes[number]) for number in shown)
    ]
    return FunctionReport(
        graph.name,
        tuple(ops),
        tuple(_region_report(region) for region in regions),
        dict(record.unavailable),
        tuple(
            ApartReport(
                pair.target,
                pair.left.name,
                pair.right.name,
                None if pair.between is None else pair.between.name,
            )
            for pair in record.apart
        ),
        tuple(
            DissolvedReport(note.target, _names(note.nodes), words_for_dissolved(note))
            for note in record.dissolved
        ),
        dict(record.resolution),
        values_of(graph, {number: position for position, number in enumerate(shown)}),
    )


def _with_details(report: OpReport, node: DataflowNode, key: str) -> OpReport:
    """The report of an op with where it comes from, its types and its work."""
    arguments = list(_argument_types(node.value))
    flops, moved = _work(node.value, [*arguments, node.var.ty])
    return replace(
        report,
        origin=origin_of(node.var, node.value),
        key=key,
        inputs=tuple(map(words_for_type, arguments)),
        output=words_for_type(node.var.ty),
        flops=flops,
        bytes=moved,
    )


def _argument_types(value: relax.Expr) -> Iterator[tvm.ir.Type]:
    """The types of the data that a binding reads; shapes, functions and numbers are left out."""
    for argument in value.args if isinstance(value, relax.Call) else ():
        if isinstance(argument.ty, relax.TensorType | tvm.ir.TupleType):
            yield argument.ty


def _work(value: relax.Expr, types: Sequence[tvm.ir.Type]) -> tuple[int | None, int | None]:
    """Operations and bytes of an op, as far as they are known."""
    view = OpView.of(value)
    if view is None or not all(map(_is_known, types)):
        return None, None
    if view.name == "relax.call_tir":
        return None, sum(map(size_of, types))
    work = work_of(view)
    return int(work.flops), int(work.bytes)


def _is_known(ty: tvm.ir.Type) -> bool:
    """Whether a type says how many elements there are."""
    if isinstance(ty, tvm.ir.TupleType):
        return all(map(_is_known, ty.fields))
    shape = ty.shape if isinstance(ty, relax.TensorType) else None
    return isinstance(shape, relax.ShapeExpr) and all(
        isinstance(extent, tvm.tirx.IntImm) for extent in shape.values
    )


def _op_report(var: relax.Var, op: str, held: Sequence[AnnotatedRegion], record: FunctionRecord) -> OpReport:
    claims = record.claims.get(var, {})
    placed = held[0].target if held else HOST
    prices = record.prices.get(var, {})
    return OpReport(
        var.name,
        op,
        placed,
        held[0].id if held else None,
        {target: tuple(by) for target, by in claims.items()},
        {target: words_for_refusal(refusal) for target, refusal in record.declines.get(var, {}).items()},
        {target: words_for_loss(_loss(target, placed, var, record)) for target in claims if target != placed},
        {place: prices[place] for place in (HOST, *claims) if claims and place in prices},
    )


def _loss(target: str, placed: str, var: relax.Var, record: FunctionRecord) -> Loss:
    """Why a target did not get what it claims."""
    if target in record.unavailable:
        return Loss(target, placed, LossReason.CANNOT_RUN)
    ruled_out = record.ruled_out.get((target, var))
    if ruled_out is not None:
        return Loss(target, placed, LossReason.BANNED if ruled_out.place is None else LossReason.PINNED)
    dissolved = record.dissolved_with.get((target, var))
    if dissolved is not None:
        return Loss(target, placed, LossReason.DISSOLVED, dissolved)
    prices = record.prices.get(var, {})
    if target in prices and placed in prices:
        there, here = prices[placed], prices[target]
        return Loss(target, placed, LossReason.COSTS_MORE, seconds=there, seconds_lost=here)
    if record.resolution.get("cost") is not None:
        return Loss(target, placed, LossReason.LARGER_UNIT)
    return Loss(target, placed, LossReason.NOT_PLACED if placed == HOST else LossReason.COMES_LATER)


def _region_report(region: AnnotatedRegion) -> RegionReport:
    return RegionReport(
        region.id,
        region.target,
        _names(region.nodes),
        tuple(each.name for each in region.inputs),
        _names(region.outputs),
        tuple(composite.name for composite in region.composites),
    )


def _names(variables: Iterable[relax.Var]) -> tuple[str, ...]:
    return tuple(var.name for var in variables)
