"""Placement as a mixed integer program for HiGHS: an independent optimum where brute force is too slow.

Launches and orders are left out. Where launches cost nothing, nothing is paid between regions of one target,
and units cannot need each other, that is the whole problem; elsewhere its optimum is a lower bound.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

from annotated_region.ids import Place, UnitId
from annotated_region.placement import (
    PlacementConstant,
    PlacementProblem,
    PlacementUnit,
    TargetLimits,
)
from kits.placement.placement_problems import of_edges

TARGETS = 2


def network(seed: int, nodes: int, launch: float = 0.0, reach: int = 4) -> PlacementProblem:
    """A random network: most nodes read the one before, some read another near one, some read nothing."""
    rng = random.Random(seed)
    edges = []
    for node in range(1, nodes):
        edges += [(node - 1, node)] if rng.random() < 0.85 else []
        edges += [(rng.randrange(max(0, node - reach), node), node)] if rng.random() < 0.4 else []
    compute = [
        [rng.uniform(0.1, 2.0) if rng.random() < 0.8 else math.inf for _ in range(TARGETS)]
        + [rng.uniform(0.5, 5.0)]
        for _ in range(nodes)
    ]
    crossing = rng.choice([0.05, 0.3, 1.0])
    table = tuple(
        tuple(0.0 if here == there else crossing for there in range(TARGETS + 1))
        for here in range(TARGETS + 1)
    )
    problem = of_edges(nodes, edges, [launch] * TARGETS, compute, table)
    values = tuple(replace(value, size=rng.randint(0, 9)) for value in problem.values)
    pairs = [
        PlacementUnit(Place(rng.randrange(TARGETS)), (node, node + 1), rng.uniform(0.1, 2.0))
        for node in range(nodes - 1)
        if problem.successors[node] == (node + 1,) and rng.random() < 0.3
    ]
    constants = tuple(PlacementConstant(rng.randint(1, 90), (node,)) for node in range(nodes))
    return replace(problem, values=values, units=(*problem.units, *pairs), constants=constants)


def with_budget(problem: PlacementProblem, share: float) -> PlacementProblem:
    """The same with a budget for the first target: a share of all constants."""
    total = sum(constant.size for constant in problem.constants)
    return replace(problem, limits=(TargetLimits(budget_bytes=int(share * total)), TargetLimits()))


@dataclass(frozen=True)
class MilpAnswer:
    """The least cost without launches, and the units that reach it."""

    cost: float
    units: list[UnitId]


def milp_optimum(problem: PlacementProblem, highspy: Any) -> MilpAnswer:
    """Solve the program to optimality."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 0.0)
    chosen = {
        index: solver.addBinary() for index, unit in enumerate(problem.units) if math.isfinite(unit.cost)
    }
    at = [[[] for _ in range(problem.host + 1)] for _ in range(problem.nodes)]
    for index, variable in chosen.items():
        for node in problem.units[index].nodes:
            at[node][problem.units[index].place].append(variable)

    def there(node: int, place: int) -> Any:
        return sum(at[node][place], start=solver.qsum([]))

    for places in at:
        solver.addConstr(solver.qsum([variable for variables in places for variable in variables]) == 1)
    paid = []
    for value in problem.values:
        assert value.producer is not None
        crossing = value.transfer[0][1]
        for place in range(problem.host + 1):
            sent = solver.addVariable(lb=0.0, ub=1.0)
            paid.append(crossing * sent)
            for reader in value.consumers:
                solver.addConstr(sent >= there(reader, place) - there(value.producer, place))
            if place == problem.host and value.host_reads:
                solver.addConstr(sent >= 1 - there(value.producer, place))
    for place, limits in enumerate(problem.limits):
        if limits.budget_bytes is not None:
            taken = [
                memory_of(problem, index) * variable
                for index, variable in chosen.items()
                if problem.units[index].place == place
            ]
            solver.addConstr(solver.qsum(taken) <= limits.budget_bytes)
    costs = [problem.units[index].cost * variable for index, variable in chosen.items()]
    solver.minimize(solver.qsum([*costs, *paid]))
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    units = [UnitId(index) for index, variable in chosen.items() if solver.variableValue(variable) > 0.5]
    return MilpAnswer(solver.getObjectiveValue(), units)


def memory_of(problem: PlacementProblem, index: int) -> int:
    """Bytes of the constants of a unit and of what it makes for others; here no constant has two readers."""
    nodes = set(problem.units[index].nodes)
    made = [value for value in problem.values if value.producer in nodes]
    handed_on = [value for value in made if value.host_reads or not nodes.issuperset(value.consumers)]
    constants = sum(constant.size for constant in problem.constants if nodes.issuperset(constant.readers))
    return constants + sum(value.size for value in handed_on)
