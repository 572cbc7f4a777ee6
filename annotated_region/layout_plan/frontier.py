"""Dynamic programming over the frontier: optimal if few values are live at once, else a lower bound.

Nodes are visited in program order. The state is the set of storages in use of each live value, which is all
that later costs depend on (vertex separation, Kinnersley 1992). States that cannot lead to an optimal plan
are pruned:

1.  by bound: a state that costs at least as much as a known plan;
2.  by dominance: a state that costs at least the cheapest state plus the cost of adding, to the cheapest,
    every storage that it lacks and this one has.

If too many states remain, the frontier is cut: the rest is planned as if the live values were new. Fewer uses
cost less, so the sum over the parts is a lower bound on the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.layout_plan.problem import Choice, LayoutProblem

__all__ = ["Bound", "search"]

_State = tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The result of the search.

    Attributes
    ----------
    lower_bound
        No choice costs less.
    choice
        An optimal choice, if the frontier was never cut and the choice is cheaper than the known one.
    """

    lower_bound: int
    choice: Choice | None


@dataclass(frozen=True, slots=True)
class _CheapestPath:
    """The cheapest path to a state: its cost, and a linked list of the options taken."""

    cost: int
    taken: tuple[int, object] | None


def search(problem: LayoutProblem, known: int, width: int) -> Bound:
    """Find an optimal choice, or bound its cost from below.

    Parameters
    ----------
    problem
        The problem.
    known
        The cost of a known choice.
    width
        The largest number of states; with more the frontier is cut.

    Notes
    -----
    O(nodes x width x options x frontier).
    """
    sweep = _Sweep(problem, known, width)
    for index, node in enumerate(problem.free):
        sweep.visit(index, node)
    return sweep.bound()


class _Sweep:
    def __init__(self, problem: LayoutProblem, known: int, width: int) -> None:
        self.problem = problem
        self.known = known
        self.width = width
        self.base = _fixed_cost(problem)
        self.live: list[int] = []
        self.states: dict[_State, _CheapestPath] = {(): _CheapestPath(0, None)}
        self.was_cut = False
        self.last_use = _last_uses(problem)

    def visit(self, index: int, node: int) -> None:
        """Choose an option of one node in every state."""
        touched = sorted({value for option in self.problem.nodes[node] for value, _ in option.uses})
        for value in touched:
            if value not in self.live:
                self._enter(value)
        keep = [slot for slot, value in enumerate(self.live) if self.last_use[value] > index]
        self.states = self._after(node, keep)
        self.live = [self.live[slot] for slot in keep]
        self._prune()

    def bound(self) -> Bound:
        """The result at the end of the sweep."""
        (entry,) = self.states.values() or (None,)
        if entry is None:  # every plan costs at least as much as the known one
            return Bound(self.known, None)
        total = self.base + entry.cost
        if self.was_cut or total >= self.known:
            return Bound(min(total, self.known), None)
        return Bound(total, self._choice(entry))

    def _enter(self, value: int) -> None:
        anchors = self.problem.anchors[value]
        self.live.append(value)
        self.states = {(*state, anchors): entry for state, entry in self.states.items()}

    def _after(self, node: int, keep: list[int]) -> dict[_State, _CheapestPath]:
        slot_of = {value: slot for slot, value in enumerate(self.live)}
        after: dict[_State, _CheapestPath] = {}
        for state, entry in self.states.items():
            for number, option in enumerate(self.problem.nodes[node]):
                sets, cost = list(state), entry.cost + option.cost
                for value, storage in option.uses:
                    slot = slot_of[value]
                    if storage not in sets[slot]:
                        cost += self.problem.weights[value] if sets[slot] else 0
                        sets[slot] |= {storage}
                key = tuple(sets[slot] for slot in keep)
                if key not in after or cost < after[key].cost:
                    after[key] = _CheapestPath(cost, (number, entry.taken))
        return after

    def _prune(self) -> None:
        """Prune by cases 1 and 2, then cut the frontier if necessary."""
        room = self.known - self.base
        self.states = {state: entry for state, entry in self.states.items() if entry.cost < room}
        if not self.states:
            return
        cheapest, least = min(self.states.items(), key=lambda item: item[1].cost)
        self.states = {
            state: entry
            for state, entry in self.states.items()
            if entry is least or entry.cost < least.cost + self._lacking(cheapest, state)
        }
        if len(self.states) > self.width:
            self.was_cut = True
            self.states = {tuple(frozenset() for _ in self.live): least}

    def _lacking(self, state: _State, other: _State) -> int:
        """The cost of adding the missing storages of `other` to `state`. Every live value has one in both."""
        return sum(
            self.problem.weights[value] * len(theirs - ours)
            for value, ours, theirs in zip(self.live, state, other, strict=True)
        )

    def _choice(self, entry: _CheapestPath) -> Choice:
        choice = [0] * len(self.problem.nodes)
        taken = entry.taken
        for node in reversed(self.problem.free):
            assert taken is not None
            choice[node], taken = taken  # type: ignore[assignment]
        return tuple(choice)


def _last_uses(problem: LayoutProblem) -> dict[int, int]:
    """The position of the last free node that uses each value."""
    return {
        value: index
        for index, node in enumerate(problem.free)
        for option in problem.nodes[node]
        for value, _ in option.uses
    }


def _fixed_cost(problem: LayoutProblem) -> int:
    """The part of the cost that is common to all choices."""
    copies = sum(
        weight * max(0, len(anchors) - 1)
        for weight, anchors in zip(problem.weights, problem.anchors, strict=True)
    )
    return copies + sum(node[0].cost for node in problem.nodes if len(node) == 1)
