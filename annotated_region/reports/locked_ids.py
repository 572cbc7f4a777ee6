"""Converts the report of a function to a lock entry, and renumbers its regions by the ids of a lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from annotated_region.findings.function_report import FunctionReport, OpReport
from annotated_region.locking.alignment import OpLabel, aligned
from annotated_region.locking.candidates import by_overlap
from annotated_region.locking.lock_diff import label_of
from annotated_region.locking.locked_ops import LockedFunction, LockedOp

__all__ = ["locked_function", "with_locked_ids"]


def locked_function(function: FunctionReport) -> LockedFunction:
    """The placement of a function as an entry of a lock."""
    cost, bound = (function.resolution.get(name) for name in ("cost", "lower_bound"))
    return LockedFunction(
        function.name,
        tuple(map(_locked, function.ops)),
        None if cost is None else float(cost),
        None if bound is None else float(bound),
    )


def _locked(op: OpReport) -> LockedOp:
    local, _, around = op.fingerprint.partition(".")
    reason = op.first_reason if op.region is None else ""
    return LockedOp(op.key, op.op, local, around, op.placed, op.region, op.composite, reason)


def with_locked_ids(function: FunctionReport, locked: LockedFunction | None) -> FunctionReport:
    """The report with each region renumbered to the locked region that shares most ops with it.

    Each id is used at most once, by the region with most of its ops; the other regions are
    numbered after all ids of the lock. O(n log n) in the ops.
    """
    if locked is None:
        return function
    ids = _ids(function, locked)
    return replace(
        function,
        ops=tuple(op if op.region is None else replace(op, region=ids[op.region]) for op in function.ops),
        regions=tuple(replace(region, id=ids[region.id]) for region in function.regions),
    )


def _ids(function: FunctionReport, locked: LockedFunction) -> Mapping[int, int]:
    """The map from ids in the report to new ids."""
    ids = by_overlap(_shared_ops(function, locked))
    new = max((op.region for op in locked.ops if op.region is not None), default=-1) + 1
    for left in function.regions:
        if left.id not in ids:
            ids[left.id] = new
            new += 1
    return ids


def _shared_ops(function: FunctionReport, locked: LockedFunction) -> Counter[tuple[int, int]]:
    """The number of common ops of each pair of a reported and a locked region of the same target."""
    labels = [OpLabel(op.key, op.op, *op.fingerprint.split(".")) for op in function.ops]
    shared: Counter[tuple[int, int]] = Counter()
    for op, position in zip(function.ops, aligned([label_of(op) for op in locked.ops], labels), strict=True):
        was = None if position is None else locked.ops[position]
        if was is not None and was.place == op.placed and op.region is not None and was.region is not None:
            shared[op.region, was.region] += 1
    return shared
