"""The values that a region set hands out: regions, composites and claims."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import relax

from annotated_region.ids import RegionId
from annotated_region.origins import recorded_origin

__all__ = ["AnnotatedRegion", "Composite"]


@dataclass(frozen=True, slots=True)
class Composite:
    """The ops of one pattern, which a target runs as one unit.

    Attributes
    ----------
    name
        The name of the pattern, such as ``"dnnl.conv2d_bias_relu"``.
    nodes
        The variables that the ops are bound to, in program order.
    """

    name: str
    nodes: tuple[relax.Var, ...]


@dataclass(frozen=True, slots=True)
class AnnotatedRegion:
    """What lies between the begins and the ends of one target: nodes, inputs and outputs.

    Attributes
    ----------
    id
        Its number in the set, stable under changes to other regions.
    target
        The target that claims it.
    nodes
        The variables that its nodes are bound to, in program order.
    inputs
        The distinct values that enter it, in order of first use: parameters, or nodes outside.
        Constants, shapes and the like are no inputs, they belong to their users.
    outputs
        Those of its nodes that are used outside, in order of definition.
    composites
        The composites inside, in order of their first node. Before conflicts are resolved they are
        candidates and may share nodes.
    label
        The label that its annotations carry; empty when it needs none. Not part of its identity.
    """

    id: RegionId
    target: str
    nodes: tuple[relax.Var, ...]
    inputs: tuple[relax.Var, ...]
    outputs: tuple[relax.Var, ...]
    composites: tuple[Composite, ...] = ()
    label: str = field(default="", compare=False)

    def __str__(self) -> str:
        names = [_called(var) for var in self.nodes[:3]]
        if len(self.nodes) > len(names):
            names.append(f"and {len(self.nodes) - len(names)} more")
        return f"region {self.id} of {self.target!r} ({', '.join(names)})"


def _called(var: relax.Var) -> str:
    """What people call a node: what it was made from, if that is known, else its name."""
    return recorded_origin(var) or var.name
