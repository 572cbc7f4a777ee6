"""The set of all annotated regions of a function, and the methods that change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from tvm import relax

from annotated_region.annotations import BEGIN, END, require_op
from annotated_region.certificates import Certificate
from annotated_region.checked import checked
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import DEAD, DataflowGraph
from annotated_region.errors import InvalidClaimError, OverlappingRegionsError, RegionCycleError
from annotated_region.ids import NodeId, RegionId, numbered
from annotated_region.origins import described
from annotated_region.regions.annotated_functions import read_annotated, write_annotated
from annotated_region.regions.families import FamilyCycleError, family_of, order_of, orders
from annotated_region.regions.node_region import Claim, NodeRegion, regions_from_claims
from annotated_region.regions.normal_form import in_canonical_order, normalized
from annotated_region.regions.region import AnnotatedRegion, Composite

if TYPE_CHECKING:
    import networkx

__all__ = ["AnnotatedRegionSet"]


UNHELD: Final = RegionId(-1)
"""The id of a region outside any set."""


class AnnotatedRegionSet:
    """The annotated regions of a `relax.Function`, possibly overlapping.

    Parameters
    ----------
    func
        The function to read; it is not changed.
    name
        Its name, for messages; by default its ``global_symbol``.
    begin, end
        The names of the annotation ops, where other ops than the default pair are used.

    Raises
    ------
    MalformedAnnotationError
        The annotations do not describe regions. The message names function, target and edge.

    Notes
    -----
    Reading takes time linear in the edges of the function plus the sizes of its regions. Iteration yields the
    regions in the order of their first node. A valid set (see `verify`) stays valid under every method.
    """

    @checked
    @paused_collector()
    def __init__(
        self, func: relax.Function, name: str | None = None, *, begin: str = BEGIN, end: str = END
    ) -> None:
        require_op(begin, "begin")
        require_op(end, "end")
        self._graph, node_regions = read_annotated(func, name, begin, end)
        self._hold(node_regions)
        self._written: relax.Function | None = func

    @classmethod
    def from_claims(
        cls,
        func: relax.Function,
        claims: Mapping[str, Iterable[Claim]],
        name: str | None = None,
        *,
        begin: str = BEGIN,
        end: str = END,
    ) -> AnnotatedRegionSet:
        """The regions annotated in `func`, if any, and one more region for each claim.

        Parameters
        ----------
        func
            The function whose variables the claims name; it is not changed.
        claims
            For each target, its claims: a variable, a tuple of variables that form one region, or a
            `Composite`. Claims may overlap in any way; equal claims are one.
        name, begin, end
            As for the constructor.

        Raises
        ------
        InvalidClaimError
            A claim is empty, names a variable that no binding defines or a node that no region may contain,
            or spans two blocks.
        MalformedAnnotationError
            The existing annotations of `func` do not describe regions.
        """
        read = cls(func, name, begin=begin, end=end)
        return read._changed_to([*read._node_regions.values(), *regions_from_claims(read._graph, claims)])

    # -- reading ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._node_regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        with paused_collector():
            return iter([self[region] for region in self._ids_in_order()])

    def __getitem__(self, region: int) -> AnnotatedRegion:
        """The region with this id. O(its edges) at the first call, then O(1).

        Raises
        ------
        InvalidClaimError
            The set has no region with this id.
        """
        known = RegionId(region)
        if known not in self._region_values:
            if known not in self._node_regions:
                raise InvalidClaimError(
                    f"{self._graph.name} has no region {region}; its ids are {sorted(self._node_regions)}"
                )
            self._region_values[known] = self.region_value(self._node_regions[known], known)
        return self._region_values[known]

    def __eq__(self, other: object) -> bool:
        """Whether both sets hold the same regions of the same function; labels and ids do not count."""
        if not isinstance(other, AnnotatedRegionSet):
            return NotImplemented
        return list(self._graph.func.params) == list(other._graph.func.params) and (
            self._identity() == other._identity()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AnnotatedRegionSet({self._graph.name}: {', '.join(str(region) for region in self)})"

    @property
    def func(self) -> relax.Function:
        """The function without annotations."""
        return self._graph.func

    @property
    def dataflow(self) -> DataflowGraph:
        """The dataflow graph of `func`, which numbers its nodes."""
        return self._graph

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that have a region, in order of their first region."""
        return tuple(dict.fromkeys(self._node_regions[region].target for region in self._ids_in_order()))

    @property
    def node_regions(self) -> Mapping[RegionId, NodeRegion]:
        """The regions by node numbers, by id: the form that passes work on."""
        return self._node_regions

    @checked
    def regions_of(self, var: relax.Var) -> tuple[AnnotatedRegion, ...]:
        """Every region that contains `var`, by id. O(1), plus `__getitem__` for each region."""
        node = self._graph.number_of(var)
        return () if node is None else tuple(self[region] for region in self._holders.get(node, ()))

    @paused_collector()
    def overlaps(self) -> list[tuple[AnnotatedRegion, AnnotatedRegion, tuple[relax.Var, ...]]]:
        """Pairs of regions that share nodes, with the shared nodes. O(result), plus sorting it."""
        shared: dict[tuple[RegionId, RegionId], list[NodeId]] = {}
        for node in self._shared:
            held = self._holders[node]
            for index, left in enumerate(held):
                for right in held[index + 1 :]:
                    shared.setdefault((left, right), []).append(node)
        return [
            (self[left], self[right], self._vars(nodes)) for (left, right), nodes in sorted(shared.items())
        ]

    def is_disjoint(self) -> bool:
        """Whether no node lies in two regions. O(1)."""
        return not self._shared

    @paused_collector()
    def graph(self) -> networkx.DiGraph:
        """The dataflow graph as a `networkx.DiGraph` of variables. O(nodes + edges).

        Vertex attributes: ``op``, ``scope``, ``regions`` (ids), ``targets``; edge attribute: ``bytes`` (None
        for symbolic shapes). Edges of 0 bytes carry no value: they order effects, put a cast before the users
        of its shape variables, and captured values before the `If` that uses them.
        """
        # networkx takes longer to load than this whole package, and partitioning does not need it.
        from annotated_region.regions.networks import scope_network  # noqa: PLC0415

        return scope_network(self._graph, self._holders, self._node_regions)

    @paused_collector()
    def quotient(self) -> networkx.DiGraph:
        """The quotient graph of a disjoint set: region ids and host variables. O(nodes + edges).

        Vertex attributes: ``target`` ("host" for variables), ``op`` (of variables), ``nodes``; edge
        attributes: ``values`` (the distinct variables that cross), ``bytes``. An edge without values only
        orders its ends, as in `graph`. The quotient is acyclic iff `verify` succeeds.

        Raises
        ------
        OverlappingRegionsError
            Two regions share a node, so the node has no single vertex.
        """
        from annotated_region.regions.networks import quotient_network  # noqa: PLC0415 - as above

        self.require_disjoint()
        return quotient_network(self._graph, self._holders, self._node_regions)

    def require_disjoint(self) -> None:
        """Raise `OverlappingRegionsError`, which names a conflict, unless the regions are disjoint."""
        for node in self._shared[:1]:
            regions = " and ".join(str(self[region]) for region in self._holders[node])
            raise OverlappingRegionsError(
                f"{self._graph.name}: {described(self._graph.nodes[node].var)} lies in {regions}; run "
                "ResolveConflicts first"
            )

    # -- changing ---------------------------------------------------------------------------------

    @checked
    def merge(self, a: AnnotatedRegion | int, b: AnnotatedRegion | int) -> AnnotatedRegion:
        """Join two regions of one target; the result keeps the smaller id. O(nodes + edges).

        The joined region absorbs composites of its target that lie inside it, and a region of its target that
        is equal to it.

        Raises
        ------
        InvalidClaimError
            The arguments are not two distinct regions of this set, of one target and in one block.
        RegionCycleError
            The joined region would have to run both before and after another node, or the set already has no
            order for another reason. The set is unchanged.
        """
        left, right = sorted((self._id_of(a), self._id_of(b)))
        first, second = self._require_pair(left, right)
        others = {region: held for region, held in self._node_regions.items() if region not in (left, right)}
        members = dict(sorted(normalized({left: first.joined(second), **others}).items()))
        self._require_joinable(left, right, members)
        self._hold(members)
        self._written = None
        return self[left]

    def _id_of(self, region: AnnotatedRegion | int) -> RegionId:
        if isinstance(region, int):
            return self[region].id
        if region.id not in self._node_regions or self[region.id] != region:
            raise InvalidClaimError(
                f"{self._graph.name}: {region} is not in this set: it was merged, or belongs to another "
                "set; look it up again with regions_of"
            )
        return region.id

    def _require_pair(self, left: RegionId, right: RegionId) -> tuple[NodeRegion, NodeRegion]:
        first, second = self._node_regions[left], self._node_regions[right]
        nodes = self._graph.nodes
        if left == right or first.target != second.target:
            raise InvalidClaimError(
                f"{self._graph.name}: {self[left]} and {self[right]} are not two regions of one target; only "
                "such regions can be joined"
            )
        if nodes[first.nodes[0]].scope != nodes[second.nodes[0]].scope:
            raise InvalidClaimError(
                f"{self._graph.name}: {self[left]} and {self[right]} lie in two blocks; a region stays in one"
            )
        return first, second

    def _require_joinable(self, left: RegionId, right: RegionId, members: dict[RegionId, NodeRegion]) -> None:
        family = family_of(members, left)
        try:
            order_of(self._graph, members, family)
        except FamilyCycleError as error:
            self._refuse(left, right, members, error)

    def _refuse(
        self, left: RegionId, right: RegionId, members: dict[RegionId, NodeRegion], error: FamilyCycleError
    ) -> NoReturn:
        family, cycle = error.family, error.cycle
        joined = members[left].nodes[0]
        where = f"{self._graph.name}: joining {self[left]} and {self[right]}"
        if joined in cycle:
            between = ", ".join(self._vertex_names([vertex for vertex in cycle if vertex != joined], family))
            raise RegionCycleError(
                f"{where} would put {between} both before and after them; keep them apart, or let "
                "ResolveConflicts give some of these nodes to another target"
            ) from error
        names = " -> ".join(self._vertex_names([*cycle, cycle[0]], family))
        raise RegionCycleError(
            f"{where} would leave regions that depend on each other: {names}; split one of these first"
        ) from error

    # -- writing and proving ----------------------------------------------------------------------

    def annotate(self) -> relax.Function:
        """The function with the regions written into it as annotations.

        An unchanged set returns the function that it was read from. Time is linear in the edges, each times
        the number of regions and composites around its ends.
        """
        if self._written is None:
            self._written = write_annotated(self._graph, self._node_regions)
        return self._written

    @paused_collector()
    def verify(self) -> Certificate:
        """A certificate that the regions can run sequentially.

        A disjoint set has one order. Regions that overlap have several, see `Certificate`; each takes
        O((nodes + edges) log nodes).

        Raises
        ------
        RegionCycleError
            Regions of one order depend on each other in a cycle, or a path leaves a region and re-enters it.
        """
        certified = []
        try:
            for family, order in orders(self._graph, self._node_regions):
                region_at = {self._node_regions[region].nodes[0]: region for region in family}
                certified.append(
                    tuple(region_at.get(vertex, self._graph.nodes[vertex].var) for vertex in order)
                )
        except FamilyCycleError as error:
            names = " -> ".join(self._vertex_names([*error.cycle, error.cycle[0]], error.family))
            raise RegionCycleError(
                f"{self._graph.name}: these regions depend on each other: {names}; split one of them, "
                "or build them with MergeCompilerRegions and ResolveConflicts"
            ) from error
        return Certificate(tuple(certified))

    def _vertex_names(self, vertices: Iterable[NodeId], family: Iterable[RegionId]) -> list[str]:
        """Names of vertices of the quotient graph of a family, for messages."""
        region_at = {
            self._node_regions[region].nodes[0]: region for region in family if region in self._node_regions
        }
        return [
            str(self[region_at[vertex]]) if vertex in region_at else described(self._graph.nodes[vertex].var)
            for vertex in vertices
        ]

    # -- inside -----------------------------------------------------------------------------------

    def replaced_by(self, members: Iterable[NodeRegion]) -> AnnotatedRegionSet:
        """A set of other regions over the same function; passes return their result this way."""
        return self._changed_to(members)

    @paused_collector()
    def _changed_to(self, members: Iterable[NodeRegion]) -> AnnotatedRegionSet:
        other = AnnotatedRegionSet.__new__(AnnotatedRegionSet)
        other._graph = self._graph
        kept = normalized(dict(numbered(RegionId, members)))
        other._hold(dict(numbered(RegionId, in_canonical_order(kept.values()))))
        unchanged = list(other._node_regions.values()) == list(self._node_regions.values())
        other._written = self._written if unchanged else None
        return other

    def _hold(self, members: dict[RegionId, NodeRegion]) -> None:
        self._node_regions = members
        self._region_values: dict[RegionId, AnnotatedRegion] = {}
        self._holders: dict[NodeId, list[RegionId]] = {}
        for region, held in members.items():
            for node in held.nodes:
                self._holders.setdefault(node, []).append(region)
        self._shared = sorted(node for node, held in self._holders.items() if len(held) > 1)

    def _ids_in_order(self) -> list[RegionId]:
        return sorted(self._node_regions, key=lambda region: (self._node_regions[region].sort_key, region))

    def region_value(self, members: NodeRegion, region: RegionId = UNHELD) -> AnnotatedRegion:
        """The public value of a region by node numbers, in the set or not. O(its edges)."""
        graph = self._graph
        inside = set(members.nodes)
        inputs = dict.fromkeys(
            edge.producer
            for node in members.nodes
            for edge in graph.into[node]
            if edge.producer not in inside and not graph.is_literal(edge.producer)
        )
        outputs = [
            node
            for node in members.nodes
            if any(edge.consumer not in inside and edge.consumer != DEAD for edge in graph.out_of[node])
        ]
        return AnnotatedRegion(
            region,
            members.target,
            self._vars(members.nodes),
            tuple(graph.producer_var(producer) for producer in inputs),
            self._vars(outputs),
            tuple(Composite(unit.name, self._vars(unit.nodes)) for unit in members.composites),
            members.label,
        )

    def _vars(self, nodes: Iterable[NodeId]) -> tuple[relax.Var, ...]:
        return tuple(self._graph.nodes[node].var for node in nodes)

    def _identity(self) -> list[tuple[object, ...]]:
        return [
            (region.target, region.nodes, region.inputs, region.outputs, region.composites) for region in self
        ]
