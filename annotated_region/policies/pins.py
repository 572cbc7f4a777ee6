"""Pins and bans: what a user fixes before conflicts are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph, NodeKind
from annotated_region.errors import PinError
from annotated_region.ids import NodeId
from annotated_region.regions.claims import without
from annotated_region.regions.networks import op_name_of
from annotated_region.regions.node_region import NodeRegion
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of

__all__ = ["Pins"]


@dataclass(frozen=True, slots=True)
class Pins:
    """Where ops have to go, and where they must not go.

    Attributes
    ----------
    pins
        By the name of a binding (``"lv3"``) or of an op (``"relax.nn.softmax"``), the one target that
        may have it; "host" keeps it on the host. A binding's own pin goes before its op's.
    bans
        Likewise, the targets that may not have it.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    bans: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def apply(
        self, graph: DataflowGraph, members: Sequence[NodeRegion]
    ) -> tuple[list[NodeRegion], set[NodeId]]:
        """The regions without the claims that are ruled out, and the nodes that the host may not have.

        Raises
        ------
        PinError
            A name stands for nothing in the function, or a pin asks for a target that does not claim
            the op; the message says why it declined.
        """
        places = dict(self._places(graph))
        ruled_out: dict[str, set[NodeId]] = {}
        targets = dict.fromkeys(member.target for member in members)
        for node, place in places.items():
            for target in targets:
                if target != place:
                    ruled_out.setdefault(target, set()).add(node)
        for node, banned in self._banned(graph):
            for target in banned:
                ruled_out.setdefault(target, set()).add(node)
        kept = [
            left
            for member in members
            if (left := without(member, ruled_out.get(member.target, set()))) is not None
        ]
        pinned = {node for node, place in places.items() if place != HOST}
        self._require_offers(graph, places, kept)
        return kept, pinned

    def _places(self, graph: DataflowGraph) -> Iterator[tuple[NodeId, str]]:
        found = set()
        for number, key in _keys(graph, self.pins):
            found.add(key)
            yield number, self.pins[key]
        _require_known(graph, "pin", set(self.pins) - found - _shadowed(graph, self.pins))

    def _banned(self, graph: DataflowGraph) -> Iterator[tuple[NodeId, Sequence[str]]]:
        found = set()
        for number, node in graph.numbered():
            for key in (node.var.name, op_name_of(node.value)):
                if key in self.bans and node.kind is NodeKind.OPERATION:
                    found.add(key)
                    banned = self.bans[key]
                    yield number, (banned,) if isinstance(banned, str) else banned
        _require_known(graph, "ban", set(self.bans) - found)

    def _require_offers(
        self, graph: DataflowGraph, places: Mapping[NodeId, str], members: Iterable[NodeRegion]
    ) -> None:
        offered: dict[NodeId, set[str]] = {}
        for member in members:
            for node in member.nodes:
                offered.setdefault(node, set()).add(member.target)
        for node, place in places.items():
            if place != HOST and place not in offered.get(node, set()):
                name, refusal = graph.nodes[node].var.name, _refusal(graph, node, place)
                raise PinError(
                    f"{graph.name}: {name!r} is pinned to {place!r}, which {refusal}; pin it to a target "
                    "that claims it, or to 'host'"
                )


def _keys(graph: DataflowGraph, wanted: Mapping[str, str]) -> Iterator[tuple[NodeId, str]]:
    """The nodes that a mapping names, each with the most particular name that it has there."""
    for number, node in graph.numbered():
        if node.kind is NodeKind.OPERATION:
            for key in (node.var.name, op_name_of(node.value)):
                if key in wanted:
                    yield number, key
                    break


def _shadowed(graph: DataflowGraph, wanted: Mapping[str, str]) -> set[str]:
    """Op names all of whose nodes are named more particularly."""
    return {op_name_of(node.value) for node in graph.nodes if node.var.name in wanted}


def _require_known(graph: DataflowGraph, what: str, unknown: set[str]) -> None:
    if unknown:
        names = ", ".join(repr(name) for name in sorted(unknown))
        raise PinError(
            f"{graph.name}: nothing to {what} is called {names}; name a binding or an op of the function"
        )


def _refusal(graph: DataflowGraph, node: NodeId, target: str) -> str:
    """Why a target does not have a node on offer, in its own words where it has any."""
    view = OpView.of(graph.nodes[node].value)
    rule = rule_of(target, view.name) if view is not None else None
    if view is None or rule is None:
        return f"has no rule for {op_name_of(graph.nodes[node].value)}"
    answer = rule(view)
    return f"declines it: {answer}" if isinstance(answer, str) else "does not claim it in this module"
