"""What is to be grouped under which limits, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from annotated_region.graphs import CycleError, Dag, contract

__all__ = ["ColourLimits", "Grouping", "Partition", "GroupingProblem"]

Partition = list[list[int]]
"""Groups under construction: each a list of vertices of one colour."""

_ASKED_OF_EACH = 40
_ASKED_ANYWAY = 20_000
_ASKED_ONCE = 8
"""A question to a predicate costs this much besides the vertices that it is about."""


@dataclass(frozen=True, slots=True)
class ColourLimits:
    """What the groups of one colour have to respect.

    Attributes
    ----------
    connected
        Whether each group has to hang together through its own edges; otherwise vertices that no edge joins
        may share a group.
    max_weight
        The largest weight of a group that holds more than one vertex; a vertex is never split.
    max_groups
        How many groups there may be: the heaviest stay, the vertices of all others are left over.
    accept
        Called with the ascending vertices of a group that is about to be formed: True, or the reason
        why this group must not be formed.
    """

    connected: bool = False
    max_weight: int | None = None
    max_groups: int | None = None
    accept: Callable[[list[int]], bool | str] | None = None

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if self.max_weight is not None and self.max_weight < 1:
            raise ValueError(f"max_weight is {self.max_weight}, but a group weighs 1 at least")
        if self.max_groups is not None and self.max_groups < 0:
            raise ValueError(f"max_groups is {self.max_groups}; it counts groups")

    @property
    def bounded(self) -> bool:
        """Whether a group may be refused for what it holds."""
        return self.max_weight is not None or self.accept is not None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of one colour each, whose contraction leaves the graph acyclic.

    Attributes
    ----------
    groups
        Each ascending; ordered by smallest vertex.
    group_of
        For each vertex the index of its group, or None for a host vertex and for one left over.
    left_over
        Coloured vertices in no group, ascending, each with what `ColourLimits.accept` answered for it alone,
        or None where there are `ColourLimits.max_groups` larger ones. They are host vertices for `groups`.
    lower_bound
        No valid grouping of the vertices that are in `groups` has fewer groups than this.
    """

    groups: tuple[tuple[int, ...], ...]
    group_of: tuple[int | None, ...]
    left_over: Mapping[int, str | None]
    lower_bound: int


@dataclass(slots=True)
class GroupingProblem:
    """A grouping problem in the form that the strategies work on: fixed groups are single vertices.

    Attributes
    ----------
    dag, colours, weights
        The graph, the colour of each vertex (None: host), and its weight.
    limits
        One entry for each colour that occurs, in the order of first use.
    blocks
        The caller's vertices behind each vertex.
    topological
        One topological order of the graph.
    """

    dag: Dag
    colours: list[int | None]
    weights: list[int]
    limits: dict[int, ColourLimits]
    blocks: list[tuple[int, ...]]
    topological: list[int]
    _answers: dict[tuple[int, ...], str] = field(default_factory=dict)
    _asked: int = 0

    @classmethod
    def of(
        cls,
        dag: Dag,
        colours: Sequence[int | None],
        weights: Sequence[int] | None,
        limits: Mapping[int, ColourLimits],
        fixed: Sequence[Sequence[int]],
    ) -> GroupingProblem:
        """Contract the fixed groups and check the arguments, in O(n log n + m)."""
        if len(colours) != len(dag) or (weights is not None and len(weights) != len(dag)):
            raise ValueError(f"{len(dag)} vertices need as many colours and weights")
        several = [block for block in fixed if len(block) > 1]
        if several:
            quotient, blocks, _ = contract(dag, several)
        else:
            quotient, blocks = dag, [(vertex,) for vertex in range(len(dag))]
        for block in blocks:
            if len(block) > 1 and len({colours[vertex] for vertex in block}) > 1:
                raise ValueError(f"the fixed group {block} holds more than one colour")
        try:
            topological = quotient.topological()
        except CycleError as error:
            raise error.expanded(blocks) from None
        known = dict.fromkeys(colour for colour in colours if colour is not None)
        return cls(
            quotient,
            [colours[block[0]] for block in blocks],
            [sum(weights[vertex] for vertex in block) if weights else len(block) for block in blocks],
            {colour: limits.get(colour, ColourLimits()) for colour in known},
            blocks,
            topological,
        )

    @property
    def bounded(self) -> bool:
        """Whether some colour's groups may be refused for what they hold."""
        return any(limits.bounded for limits in self.limits.values())

    @property
    def connected(self) -> bool:
        """Whether some colour's groups have to be connected."""
        return any(limits.connected for limits in self.limits.values())

    def coloured(self) -> list[int]:
        """The vertices that have to be grouped, in topological order."""
        return [vertex for vertex in self.topological if self.colours[vertex] is not None]

    def limits_of(self, vertex: int) -> ColourLimits:
        """The limits of a coloured vertex."""
        colour = self.colours[vertex]
        assert colour is not None
        return self.limits[colour]

    def reversed(self) -> GroupingProblem:
        """The same problem on the reversed graph; answers of predicates are shared."""
        return replace(self, dag=self.dag.reversed(), topological=self.topological[::-1])

    def accepts(self, group: Sequence[int]) -> bool:
        """Whether the limits on weight and the predicate allow this group; connectedness is not looked at.

        A single vertex is within any weight. A predicate may be slow: once it has been asked about many
        vertices in all, no group is accepted that it was not asked about already.
        """
        limits = self.limits_of(group[0])
        if not limits.bounded:
            return True
        if not self._fits(limits, group) or (self.exhausted and self._key(group) not in self._answers):
            return False
        return not self.refusal(group)

    @property
    def exhausted(self) -> bool:
        """Whether the predicates have been asked as much as they may be: some 40 times about each vertex."""
        return self._asked > _ASKED_OF_EACH * len(self.dag) + _ASKED_ANYWAY

    def refusal(self, group: Sequence[int]) -> str:
        """The reason for which the predicate refuses a group, or nothing; each group is asked for once."""
        accept = self.limits_of(group[0]).accept
        if accept is None:
            return ""
        vertices = self._key(group)
        if vertices not in self._answers:
            self._asked += len(vertices) + _ASKED_ONCE
            answer = accept(list(vertices))
            said = answer if isinstance(answer, str) else ""
            self._answers[vertices] = "" if answer is True else said or "refused"
        return self._answers[vertices]

    def _key(self, group: Sequence[int]) -> tuple[int, ...]:
        """A group in the caller's vertices, ascending."""
        return tuple(sorted(vertex for block in group for vertex in self.blocks[block]))

    def _fits(self, limits: ColourLimits, group: Sequence[int]) -> bool:
        """Whether a group is within the weight that its colour allows."""
        if limits.max_weight is None or len(group) == 1:
            return True
        return sum(self.weights[vertex] for vertex in group) <= limits.max_weight
