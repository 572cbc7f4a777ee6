"""Partitions a module according to the arguments of a command."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

import tvm

from annotated_region.command_line.declarations.placing import COST_MODELS
from annotated_region.costs import CostModel, RooflineCost, UnitCost
from annotated_region.errors import UsageError
from annotated_region.locking.lock import Lock
from annotated_region.measuring import MeasuredCost
from annotated_region.passes.explanation import explain, partition_with_report
from annotated_region.passes.pipeline import partition
from annotated_region.policies.least_cost import LeastCost
from annotated_region.policies.policy import Policy, Priority
from annotated_region.reports.report import Report

__all__ = [
    "explained",
    "generator_options",
    "partitioned",
    "partitioned_with_report",
    "policy_of",
]

Value = TypeVar("Value")


def partitioned(mod: tvm.IRModule, options: argparse.Namespace) -> tvm.IRModule:
    """The module, partitioned according to the arguments."""
    return _placed(partition, mod, options)


def partitioned_with_report(
    mod: tvm.IRModule, options: argparse.Namespace, lock: Lock | None = None
) -> tuple[tvm.IRModule, Report]:
    """The module, partitioned according to the arguments and a lock, and its report."""
    return _placed(functools.partial(partition_with_report, lock=lock, names=options.names), mod, options)


def explained(mod: tvm.IRModule, options: argparse.Namespace) -> Report:
    """The report of `partitioned` with the same arguments."""
    generators = generator_options(options) if "option" in options else None
    return _placed(functools.partial(explain, options=generators), mod, options)


def _placed(place: Callable[..., Value], mod: tvm.IRModule, options: argparse.Namespace) -> Value:
    return place(
        mod,
        options.targets,
        policy_of(options),
        prepare=options.prepare,
        cross_compile=options.cross_compile,
        pins=dict(options.pin),
        bans=dict(options.ban),
        min_work=dict(options.min_work),
    )


def generator_options(options: argparse.Namespace) -> Mapping[str, Mapping[str, object]]:
    """The code generator options of each target."""
    found: dict[str, dict[str, object]] = {}
    for target, name, value in options.option:
        found.setdefault(target, {})[name] = value
    return found


def policy_of(options: argparse.Namespace) -> Policy:
    """The policy that the arguments select.

    Raises
    ------
    UsageError
        There is a cost model, but the policy has no use for one.
    """
    if options.policy == "least-cost":
        return LeastCost(_COST_MODELS[options.cost or COST_MODELS[0]]())
    if options.cost is not None:
        raise UsageError(f"--cost {options.cost} needs --policy least-cost; add it, or omit --cost")
    return Priority(options.targets)


_COST_MODELS: Mapping[str, Callable[[], CostModel]] = dict(
    zip(COST_MODELS, (RooflineCost, MeasuredCost, UnitCost), strict=True)
)
