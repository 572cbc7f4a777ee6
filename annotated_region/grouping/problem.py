"""A grouping problem with its limits, and its solution."""

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
"""The fixed cost of a query to a predicate, beside the number of vertices in it."""


@dataclass(frozen=True, slots=True)
class ColourLimits:
    """Limits on the groups of one colour.

    Attributes
    ----------
    connected
        Whether each group must be weakly connected; otherwise vertices without edges between them may share
        one.
    max_weight
        The largest weight of a group that holds more than one vertex; a vertex is never split.
    max_groups
        The largest number of groups: the heaviest are kept, the vertices of the others are left over.
    accept
        Called with the ascending vertices of a candidate group: returns True, or the reason to reject it.
    """

    connected: bool = False
    max_weight: int | None = None
    max_groups: int | None = None
    accept: Callable[[list[int]], bool | str] | None = None

    def __post_init__(self) -> None:
        """Reject invalid limits."""
        if self.max_weight is not None and self.max_weight < 1:
            raise ValueError(f"max_weight is {self.max_weight}, but a group weighs 1 at least")
        if self.max_groups is not None and self.max_groups < 0:
            raise ValueError(f"max_groups is {self.max_groups}, but cannot be negative")

    @property
    def bounded(self) -> bool:
        """Whether a group may be rejected for its weight or by the predicate."""
        return self.max_weight is not None or self.accept is not None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of one colour each, whose contraction leaves the graph acyclic.

    Attributes
    ----------
    groups
        The vertices of each group, ascending; groups are ordered by smallest vertex.
    group_of
        The index of each vertex's group; None for host vertices and vertices left over.
    left_over
        Coloured vertices in no group, ascending, each with the reason that `ColourLimits.accept` gave for it
        alone, or None where the colour has `ColourLimits.max_groups` heavier groups. In the quotient of
        `groups` they count as host vertices.
    lower_bound
        No valid grouping of the vertices in `groups` has fewer groups than this.
    """

    groups: tuple[tuple[int, ...], ...]
    group_of: tuple[int | None, ...]
    left_over: Mapping[int, str | None]
    lower_bound: int


@dataclass(slots=True)
class GroupingProblem:
    """A grouping problem as the strategies see it: fixed groups are contracted to single vertices.

    Attributes
    ----------
    dag, colours, weights
        The graph, the colour of each vertex (None: host), and its weight.
    limits
        One entry for each colour in use, in the order of first use.
    blocks
        The caller's vertices that each vertex stands for.
    topological
        One topological order of the graph.
    """

    dag: Dag
    colours: list[int | None]
    weights: list[int]
    limits: dict[int, ColourLimits]
    blocks: list[tuple[int, ...]]
    topological: list[int]
    _answers: dict[tuple[int, ...], str | None] = field(default_factory=dict)
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
        """Whether some colour's groups may be rejected for their weight or by a predicate."""
        return any(limits.bounded for limits in self.limits.values())

    @property
    def connected(self) -> bool:
        """Whether some colour's groups must be connected."""
        return any(limits.connected for limits in self.limits.values())

    def coloured(self) -> list[int]:
        """The coloured vertices, in topological order."""
        return [vertex for vertex in self.topological if self.colours[vertex] is not None]

    def limits_of(self, vertex: int) -> ColourLimits:
        """The limits of a coloured vertex."""
        colour = self.colours[vertex]
        assert colour is not None
        return self.limits[colour]

    def reversed(self) -> GroupingProblem:
        """The same problem on the reversed graph; cached answers of predicates are shared."""
        return replace(self, dag=self.dag.reversed(), topological=self.topological[::-1])

    def accepts(self, group: Sequence[int]) -> bool:
        """Whether the weight limit and the predicate allow this group; connectedness is not checked.

        A single vertex satisfies any weight limit. A predicate may be slow: once its query budget is
        exhausted, only groups with a cached answer can be accepted.
        """
        limits = self.limits_of(group[0])
        if not limits.bounded:
            return True
        if not self._fits(limits, group) or (self.exhausted and self._key(group) not in self._answers):
            return False
        return self.refusal(group) is None

    @property
    def exhausted(self) -> bool:
        """Whether the query budget of the predicates, about 40 queries per vertex, is used up."""
        return self._asked > _ASKED_OF_EACH * len(self.dag) + _ASKED_ANYWAY

    def refusal(self, group: Sequence[int]) -> str | None:
        """The reason why the predicate rejects a group; None if it accepts the group. Cached by group."""
        accept = self.limits_of(group[0]).accept
        if accept is None:
            return None
        vertices = self._key(group)
        if vertices not in self._answers:
            self._asked += len(vertices) + _ASKED_ONCE
            answer = accept(list(vertices))
            reason = answer if isinstance(answer, str) and answer else "refused"
            self._answers[vertices] = None if answer is True else reason
        return self._answers[vertices]

    def _key(self, group: Sequence[int]) -> tuple[int, ...]:
        """A group in the caller's vertices, ascending."""
        return tuple(sorted(vertex for block in group for vertex in self.blocks[block]))

    def _fits(self, limits: ColourLimits, group: Sequence[int]) -> bool:
        """Whether a group is within its colour's weight limit."""
        if limits.max_weight is None or len(group) == 1:
            return True
        return sum(self.weights[vertex] for vertex in group) <= limits.max_weight
