"""Directed graphs on the integers 0..n-1, and the algorithms that other rooms share; independent of TVM."""

from annotated_region.graphs.contraction import Contraction, contract
from annotated_region.graphs.cycles import CycleError, cyclic_core, find_cycle
from annotated_region.graphs.dag import Dag
from annotated_region.graphs.disjoint_sets import DisjointSets
from annotated_region.graphs.dynamic_quotient import DynamicQuotient
from annotated_region.graphs.flow import FlowNetwork
from annotated_region.graphs.ordering import is_acyclic, program_order
from annotated_region.graphs.reachability import connected_parts, reached

__all__ = [
    "Contraction",
    "CycleError",
    "Dag",
    "DisjointSets",
    "DynamicQuotient",
    "FlowNetwork",
    "connected_parts",
    "contract",
    "cyclic_core",
    "find_cycle",
    "is_acyclic",
    "program_order",
    "reached",
]
