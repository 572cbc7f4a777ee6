"""Placements within a budget of memory, against the greedy one that stops at the budget.

    PYTHONPATH=.:tests python benchmarks/limits.py --models resnet50 bert

An accelerator with little memory ("npu", which claims what dnnl claims) beside dnnl and the host, under
`RooflineCost`, with budgets that are shares of what the placement without a budget takes. Printed are, by
model and share, the cost over the greedy one, and the gap. The peer goes through the ops in program order,
gives the npu each that still fits, and stops for good at the first that does not, as ONNX Runtime's
partitioner does; what is left goes to dnnl, and each target runs in as few regions as waves give.

The models are the nine light ones and six families, fifteen in all.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import tvm
from kits.family_models import FAMILIES, family_model

import annotated_region as ar
from annotated_region.costs import Device, RooflineCost
from annotated_region.passes import AnnotateTarget, MergeCompilerRegions, PrepareForInference
from annotated_region.placement import (
    Placement,
    PlacementProblem,
    TargetLimits,
    Uses,
    evaluate,
    solve,
)
from annotated_region.placement.waves import wave_placement
from annotated_region.policies.constants import constants_of_nodes
from annotated_region.policies.offers import FunctionFacts, Offers, problem_of
from annotated_region.policies.region_limits import RegionLimits, readers_of_values
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.backend import register_backend
from annotated_region.testing.light_models import LIGHT_MODELS, light_module

MODELS = (*LIGHT_MODELS, *FAMILIES)

SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.9)

NPU = Device(flops=6e11, bandwidth=6e10, launch=2e-5, link=1e10, latency=5e-6)
"""Four times two server cores, with a memory of its own."""


def main() -> int:
    """Print one line a model; 1 if an answer is worse than the greedy one or its gap is above 1 %."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    options = parser.parse_args()
    better = worse = wide = count = 0
    for name in options.models:
        began = time.perf_counter()
        lines = []
        for ratio, gap in measured(name):
            lines.append(f"{ratio:.3f} ({gap:.2%})")
            count += 1
            better += ratio < 1 - 1e-9
            worse += ratio > 1 + 1e-9
            wide += gap > 0.01
        print(f"{name:14} {'  '.join(lines)}  {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{count} answers: {better} better than greedy, {worse} worse, {wide} with a gap above 1 %")
    return 1 if worse or wide else 0


def measured(name: str) -> list[tuple[float, float]]:
    """For each share, the cost over the greedy one, and the gap."""
    problem = problem_of_model(name)
    free = solve(replace(problem, limits=()))
    uses = Uses(problem)
    needed = sum(uses.memory(region.units) for region in free.placement.regions if region.place == 0)
    found = []
    for share in SHARES:
        limited = replace(problem, limits=(TargetLimits(budget_bytes=int(share * needed)), TargetLimits()))
        answer = solve(limited)
        peer = evaluate(limited, greedy(limited))
        found.append((answer.cost / peer, answer.gap))
    return found


def module_of(name: str) -> tvm.IRModule:
    """One of the fifteen models."""
    return light_module(name) if name in LIGHT_MODELS else ar.from_onnx(family_model(name))


def problem_of_model(name: str) -> PlacementProblem:
    """Who may run what of a model, without limits."""
    mod = PrepareForInference(targets=["dnnl"])(module_of(name))
    mod = MergeCompilerRegions(keeps_limits=False)(AnnotateTarget(["dnnl"])(mod))
    regions = AnnotatedRegionSet(mod["main"])
    graph = regions.dataflow
    facts = FunctionFacts(readers_of_values(graph), constants_of_nodes(graph), RegionLimits(regions))
    scope = max(graph.scopes, key=lambda scope: len(scope.nodes))
    own = [m for m in regions.node_regions.values() if graph.nodes[m.nodes[0]].scope == scope.index]
    members = [replace(member, target=target) for target in ("npu", "dnnl") for member in own]
    register_backend("npu")
    limits = {"npu": TargetLimits(), "dnnl": TargetLimits()}
    return problem_of(Offers(graph, scope, members), (), facts, RooflineCost({"npu": NPU}), limits)


def greedy(problem: PlacementProblem) -> Placement:
    """The npu gets whatever comes until the first unit that does not fit, dnnl what it takes of the rest."""
    uses = Uses(problem)
    left = problem.limits[0].budget_bytes or 0
    covered: set[int] = set()
    chosen = []
    for node in range(problem.nodes):
        if node in covered:
            continue
        offers = [unit for unit in problem.units_of[node] if covered.isdisjoint(problem.units[unit].nodes)]
        offers.sort(key=lambda unit: (problem.units[unit].place, -len(problem.units[unit].nodes)))
        if problem.units[offers[0]].place == 0:
            left -= uses.memory(offers[:1])
            if left < 0:
                left = -1
                offers = [unit for unit in offers if problem.units[unit].place]
        chosen.append(offers[0])
        covered.update(problem.units[offers[0]].nodes)
    placed = wave_placement(problem, chosen)
    assert placed is not None, "composites of dnnl do not need each other"
    return placed


if __name__ == "__main__":
    sys.exit(main())
