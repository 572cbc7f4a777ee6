"""Creates the report of a run from the final regions and the notes of the passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import tvm
from tvm import relax

from annotated_region.costs.model import HOST
from annotated_region.costs.work import work_of
from annotated_region.dataflow.graph import DataflowNode
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
from annotated_region.ids import NodeId
from annotated_region.locking.alignment import OpLabel
from annotated_region.locking.fingerprints import labels_of
from annotated_region.locking.lock import Lock
from annotated_region.notes import Neighbours, Note
from annotated_region.origins import origin_of
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.regions.op_names import name_of_node
from annotated_region.regions.region import AnnotatedRegion
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.reports.locked_ids import with_locked_ids
from annotated_region.reports.record import FunctionRecord
from annotated_region.reports.report import Report
from annotated_region.reports.value_flow import values_of
from annotated_region.targets.engine_version import library_version
from annotated_region.targets.extents import size_of
from annotated_region.targets.op_view import OpView

__all__ = ["report_of"]

_SIGN_DIGITS = 6


def report_of(
    placed: Iterable[AnnotatedRegionSet],
    notes: Mapping[str, Sequence[Note]],
    targets: Iterable[str] = (),
    lock: Lock | None = None,
) -> Report:
    """The report of a run.

    Parameters
    ----------
    placed
        The final regions of each function.
    notes
        The notes of the passes, in order, by function name.
    targets
        The requested targets, in the order of preference.
    lock
        The lock that was replayed; regions keep the ids of the lock.
    """
    functions = (
        _function_report(regions, FunctionRecord.of(notes.get(regions.dataflow.name, ())))
        for regions in placed
    )
    known = (
        functions if lock is None else (with_locked_ids(each, lock.function(each.name)) for each in functions)
    )
    return Report(tuple(known), {target: library_version(target) for target in targets})


def _function_report(regions: AnnotatedRegionSet, record: FunctionRecord) -> FunctionReport:
    graph = regions.dataflow
    labels = labels_of(graph)
    composites = dict(_composites(regions, labels))
    ops = [
        _with_details(
            _op_report(node.var, name_of_node(node), regions.regions_of(node.var), record),
            node,
            label,
            composites.get(number, ""),
        )
        for number, node, label in ((number, graph.nodes[number], label) for number, label in labels.items())
    ]
    return FunctionReport(
        graph.name,
        tuple(ops),
        tuple(_region_report(region, regions.node_regions[region.id]) for region in regions),
        dict(record.unavailable),
        tuple(
            ApartReport(
                pair.target,
                pair.left.name,
                pair.right.name,
                None if pair.between is None else pair.between.name,
            )
            for pair in record.apart
            if _stands(regions, pair)
        ),
        tuple(
            DissolvedReport(note.target, _names(note.nodes), words_for_dissolved(note))
            for note in record.dissolved
        ),
        dict(record.resolution),
        values_of(graph, {number: position for position, number in enumerate(labels)}),
    )


def _composites(
    regions: AnnotatedRegionSet, labels: Mapping[NodeId, OpLabel]
) -> Iterator[tuple[NodeId, str]]:
    """For each op in a composite, the pattern and an identifier that all its ops share.

    The identifier is a digest of the keys of these ops, so it does not depend on other composites.
    """
    for member in regions.node_regions.values():
        for unit in largest_composites(member):
            ops = [node for node in unit.nodes if node in labels]
            keys = "\n".join(labels[node].key for node in ops)
            sign = sha256(keys.encode("utf-8", "backslashreplace")).hexdigest()[:_SIGN_DIGITS]
            yield from ((node, f"{unit.name}#{sign}") for node in ops)


def _with_details(report: OpReport, node: DataflowNode, label: OpLabel, composite: str) -> OpReport:
    """The report of an op, with its origin, its types, its work, and its fingerprints for locks."""
    arguments = list(_argument_types(node.value))
    flops, moved = _work(node.value, [*arguments, node.var.ty])
    return replace(
        report,
        origin=origin_of(node.var, node.value),
        key=label.key,
        inputs=tuple(map(words_for_type, arguments)),
        output=words_for_type(node.var.ty),
        flops=flops,
        bytes=moved,
        composite=composite,
        fingerprint=f"{label.local}.{label.around}",
    )


def _argument_types(value: relax.Expr) -> Iterator[tvm.ir.Type]:
    """The types of the operands of a binding; shapes, functions and numbers are omitted."""
    for argument in value.args if isinstance(value, relax.Call) else ():
        if isinstance(argument.ty, relax.TensorType | tvm.ir.TupleType):
            yield argument.ty


def _work(value: relax.Expr, types: Sequence[tvm.ir.Type]) -> tuple[int | None, int | None]:
    """Operations and bytes of an op, None where unknown."""
    view = OpView.of(value)
    if view is None or not all(map(_is_known, types)):
        return None, None
    if view.name == "relax.call_tir":
        return None, sum(map(size_of, types))
    work = work_of(view)
    return int(work.flops), int(work.bytes)


def _is_known(ty: tvm.ir.Type) -> bool:
    """Whether the number of elements of a type is static."""
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
    losses = [_loss(target, placed, var, record) for target in claims if target != placed]
    return OpReport(
        var.name,
        op,
        placed,
        held[0].id if held else None,
        {target: tuple(by) for target, by in claims.items()},
        {target: words_for_refusal(refusal) for target, refusal in record.declines.get(var, {}).items()},
        {loss.target: words_for_loss(loss) for loss in losses},
        {place: prices[place] for place in (HOST, *claims) if claims and place in prices},
        lost_by_cost=tuple(loss.target for loss in losses if _is_by_host_cost(loss)),
    )


def _loss(target: str, placed: str, var: relax.Var, record: FunctionRecord) -> Loss:
    """Why a target did not get an op that it claims."""
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


def _is_by_host_cost(loss: Loss) -> bool:
    return loss.placed == HOST and loss.reason is LossReason.COSTS_MORE


def _stands(regions: AnnotatedRegionSet, pair: Neighbours) -> bool:
    """Whether both regions of a pair still exist; passes after the merge may have dissolved them."""
    return all(
        any(region.target == pair.target for region in regions.regions_of(var))
        for var in (pair.left, pair.right)
    )


def _region_report(region: AnnotatedRegion, member: NodeRegion) -> RegionReport:
    return RegionReport(
        region.id,
        region.target,
        _names(region.nodes),
        tuple(each.name for each in region.inputs),
        _names(region.outputs),
        tuple(unit.name for unit in sorted(largest_composites(member), key=lambda unit: min(unit.nodes))),
    )


def _names(variables: Iterable[relax.Var]) -> tuple[str, ...]:
    return tuple(var.name for var in variables)
