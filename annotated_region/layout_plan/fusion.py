"""Fusion moves: an optimal mixture of two choices by a minimum cut.

Each node takes its option from one choice or the other (Lempitsky et al. 2010, "Fusion moves for Markov
random field optimization"). A storage that only one of the two uses is charged as a label cost (Delong et al.
2012), which a cut can express:

        n --inf--> a --weight--> sink       storage in use if any of the nodes n stays
        source --weight--> b --inf--> n     storage in use if any of the nodes n moves

With two families of options, such as NCHW and NHWC, one move finds the optimum (as in Boykov, Veksler and
Zabih 2001; if the second choice is a single family everywhere, this is their expansion move). A storage that
some nodes would leave and others would enter cannot be expressed by a cut: it is charged twice, and the move
becomes a heuristic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from annotated_region.graphs import FlowNetwork
from annotated_region.layout_plan.problem import Choice, LayoutProblem, evaluate

__all__ = ["Fusion", "fuse"]


@dataclass(frozen=True, slots=True)
class Fusion:
    """The result of a move.

    Attributes
    ----------
    choice
        The mixture.
    cost
        Its cost.
    is_exact
        Whether it is proved that no mixture costs less.
    """

    choice: Choice
    cost: int
    is_exact: bool


def fuse(problem: LayoutProblem, stay: Choice, move: Choice) -> Fusion:
    """An optimal mixture of two choices, or a choice at least as good as both.

    Notes
    -----
    One maximum flow, with a vertex for each free node and one or two for each storage.
    """
    nodes = [node for node in problem.free if stay[node] != move[node]]
    if not nodes:
        return Fusion(stay, evaluate(problem, stay), True)
    network = _MoveNetwork(problem, stay, move)
    moving = network.moving_side()
    mixture = tuple(move[node] if node in moving else index for node, index in enumerate(stay))
    candidates = (mixture, stay, move)
    costs = [evaluate(problem, candidate) for candidate in candidates]
    best = costs.index(min(costs))
    return Fusion(candidates[best], costs[best], network.is_exact)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The nodes that use a storage only if they stay, only if they move, or in both cases."""

    stay: list[int] = field(default_factory=list)
    move: list[int] = field(default_factory=list)
    both: list[int] = field(default_factory=list)


class _MoveNetwork:
    """The flow network described in the module docstring. A node on the sink side moves."""

    def __init__(self, problem: LayoutProblem, stay: Choice, move: Choice) -> None:
        self.problem = problem
        self.vertex = {node: index for index, node in enumerate(problem.free)}
        self.flow = FlowNetwork(len(self.vertex))
        self.is_exact = True
        for node, vertex in self.vertex.items():
            options = problem.nodes[node]
            self.flow.join(vertex, self.flow.sink, options[stay[node]].cost)
            self.flow.join(self.flow.source, vertex, options[move[node]].cost)
        for (value, storage), sides in _sides(problem, stay, move).items():
            if not sides.both and storage not in problem.anchors[value]:
                self.add_storage(problem.weights[value], sides)

    def add_storage(self, weight: int, sides: _Sides) -> None:
        """Add the cost of a storage that is not in use in any case."""
        self.is_exact &= not (sides.stay and sides.move)
        if sides.stay:
            self.flow.fan_in([self.vertex[node] for node in sides.stay], self.flow.sink, weight)
        if sides.move:
            self.flow.fan_out(self.flow.source, [self.vertex[node] for node in sides.move], weight)

    def moving_side(self) -> set[int]:
        """The nodes on the sink side of a minimum cut; nodes without a difference in cost stay."""
        self.flow.saturate()
        moves = self.flow.reaching_sink()
        return {node for node, vertex in self.vertex.items() if moves[vertex]}


def _sides(problem: LayoutProblem, stay: Choice, move: Choice) -> dict[tuple[int, int], _Sides]:
    """The nodes that use each storage, in order of first use."""
    found: dict[tuple[int, int], _Sides] = {}
    for node in problem.free:
        left, entered = problem.nodes[node][stay[node]].uses, problem.nodes[node][move[node]].uses
        for use in sorted(left | entered):
            sides = found.setdefault(use, _Sides())
            if use in left and use in entered:
                sides.both.append(node)
            else:
                (sides.stay if use in left else sides.move).append(node)
    return found
