"""The public values of a region set: regions and composites."""

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
    """A region: what lies between the begins and the ends of one target.

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
        Constants, shapes and other literals are not inputs; they belong to their users.
    outputs
        Those of its nodes that are used outside, in order of definition.
    composites
        The composites inside, in order of their first node. Before conflicts are resolved they are
        candidates that may share nodes.
    label
        The label of its annotations; empty when it needs none. Not compared for equality.
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
    """The display name of a node: its origin if recorded, else its name."""
    return recorded_origin(var) or var.name
