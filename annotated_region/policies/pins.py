"""Pins and bans: decisions that users make before conflicts are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from difflib import get_close_matches

from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import PinError
from annotated_region.ids import NodeId
from annotated_region.notes import RuledOutNote
from annotated_region.origins import described
from annotated_region.policies.operation_names import ALL, OperationNames
from annotated_region.regions.claims import without
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.op_names import op_name_of
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of

__all__ = ["Pins", "require_target"]

# Limits on the names listed in an error message.
_CHOICES, _NEAREST = 12, 3


@dataclass(frozen=True, slots=True)
class Allowed:
    """The claims that pins and bans leave.

    Attributes
    ----------
    regions
        The regions without the claims ruled out.
    pinned
        The nodes that must not run on the host.
    notes
        The claims ruled out.
    """

    regions: Sequence[NodeRegion]
    pinned: AbstractSet[NodeId] = frozenset()
    notes: Sequence[RuledOutNote] = ()


@dataclass(frozen=True, slots=True)
class Pins:
    """Targets that ops must, or must not, run on.

    Attributes
    ----------
    pins
        The target of each pinned op, by the name of its binding (``"lv3"``), by its origin
        (``"/layer1/conv1/Conv"``, see `annotated_region.origins`) or by the name of the op
        (``"relax.nn.softmax"``); "host" keeps it on the host. The pin of a binding takes precedence over that
        of its op. If several bindings have the same name or origin, ``"main/lv3"`` is that of one function,
        ``"lv3#2"`` the second one, and ``"lv3#*"`` selects all of them.
    bans
        The targets that must not run an op, by the same names.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    bans: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def require_targets(self, targets: Sequence[str]) -> None:
        """Check that all targets in pins and bans take part.

        Raises
        ------
        PinError
            A target is not among `targets`; the message suggests the nearest one.
        """
        for key, place in self.pins.items():
            if place != HOST:
                require_target(f"{key!r} is pinned to", place, targets)
        for key, banned in self.bans.items():
            for target in (banned,) if isinstance(banned, str) else banned:
                require_target(f"{key!r} is banned from", target, targets)

    def require_known(self, graphs: Sequence[DataflowGraph]) -> None:
        """Check that each name selects an op or exactly one binding of a module's functions.

        Raises
        ------
        PinError
            A name selects nothing (the message suggests the nearest names), or several bindings (the message
            lists a unique name for each).
        """
        functions = [OperationNames.of(graph) for graph in graphs]
        for what, keys in (("pin", self.pins), ("ban", self.bans)):
            for key in keys:
                _require_known(what, key, functions)

    def apply(
        self, graph: DataflowGraph, members: Sequence[NodeRegion], absent: Mapping[str, str] | None = None
    ) -> Allowed:
        """The claims in a function that pins and bans leave.

        Names that select nothing in this function belong to another one, see `require_known`. `absent` has
        the targets whose claims are left out because they cannot run here, with the reason.

        Raises
        ------
        PinError
            A pin names a target that does not claim the op; the message has the reason.
        """
        if not self.pins and not self.bans:
            return Allowed(members)
        names = OperationNames.of(graph)
        places = self._places(names)
        targets = dict.fromkeys(member.target for member in members)
        ruled_out: dict[str, dict[NodeId, str | None]] = {target: {} for target in targets}
        for node, target in self._banned(names):
            ruled_out.setdefault(target, {})[node] = None
        for node, place in places.items():
            for target in targets:
                if target != place:
                    ruled_out[target][node] = place
        allowed = (without(member, ruled_out[member.target].keys()) for member in members)
        kept = [member for member in allowed if member is not None]
        _require_offers(graph, places, kept, absent or {})
        notes = (
            RuledOutNote(graph.nodes[node].var, target, place)
            for target, nodes in ruled_out.items()
            for node, place in nodes.items()
        )
        return Allowed(kept, {node for node, place in places.items() if place != HOST}, tuple(notes))

    def _places(self, names: OperationNames) -> dict[NodeId, str]:
        """The place of each pinned node."""
        found = [(names.nodes_called(key), place) for key, place in self.pins.items()]
        by_op = {node: place for key, place in self.pins.items() for node in names.calls_of(key)}
        return by_op | {node: place for nodes, place in found for node in nodes}

    def _banned(self, names: OperationNames) -> Iterator[tuple[NodeId, str]]:
        for key, banned in self.bans.items():
            for node in (*names.nodes_called(key), *names.calls_of(key)):
                for target in (banned,) if isinstance(banned, str) else banned:
                    yield node, target


def require_target(what: str, target: str, targets: Sequence[str]) -> None:
    """Check that an option names one of the targets.

    Raises
    ------
    PinError
        It does not; the message begins with `what` and suggests the nearest target.
    """
    if target not in targets:
        nearest = get_close_matches(target, targets, n=1)
        remedy = (
            f"did you mean {nearest[0]!r}?" if nearest else f"name one of {', '.join(map(repr, targets))}"
        )
        raise PinError(f"{what} {target!r}, which is not among the targets; {remedy}")


def _require_known(what: str, key: str, functions: Sequence[OperationNames]) -> None:
    if any(names.calls_of(key) for names in functions):
        return
    bindings = [(names, node) for names in functions for node in names.nodes_called(key)]
    if len(bindings) > 1 and not key.endswith(ALL):
        raise PinError(
            f"{_meaning(key, bindings)}; {what} one of {_choices(key, bindings)}, or all of them by "
            f"{key + ALL!r}"
        )
    if not bindings:
        raise PinError(
            f"no op to {what} matches {key!r}; name a binding, an origin or an op of "
            f"{_listed([names.function for names in functions], 'or')}{_nearest(key, functions)}"
        )


def _meaning(key: str, bindings: Sequence[tuple[OperationNames, NodeId]]) -> str:
    if all(names.name_of[node] == key for names, node in bindings):
        return f"{key!r} is the name of {len(bindings)} bindings"
    return f"{len(bindings)} bindings are called {key!r} or come from it"


def _choices(key: str, bindings: Sequence[tuple[OperationNames, NodeId]]) -> str:
    """A unique name for each of several bindings, with its op; only the first ones of many."""
    keys = {names.function: names.keys() for names, _ in bindings}

    def choice(names: OperationNames, node: NodeId) -> str:
        if names.name_of[node] == key:
            return names.unique_name(node)
        return (f"{names.function}/" if len(keys) > 1 else "") + keys[names.function][node]

    choices = [f"{choice(names, node)!r} ({names.op(node)})" for names, node in bindings[:_CHOICES]]
    rest = len(bindings) - len(choices)
    return ", ".join([*choices, *([f"and {rest} more"] if rest else [])])


def _nearest(key: str, functions: Iterable[OperationNames]) -> str:
    known = dict.fromkeys(name for names in functions for name in names.all())
    # Node names are long paths, and users often remember only a part.
    holding = [name for name in known if key in name] if len(key) > 2 else []
    nearest = holding[:_NEAREST] or get_close_matches(key, known, n=_NEAREST)
    return f", such as {_listed([repr(name) for name in nearest], 'or')}" if nearest else ""


def _listed(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else ""


def _require_offers(
    graph: DataflowGraph,
    places: Mapping[NodeId, str],
    members: Iterable[NodeRegion],
    absent: Mapping[str, str],
) -> None:
    offered: dict[NodeId, set[str]] = {}
    for member in members:
        for node in member.nodes:
            offered.setdefault(node, set()).add(member.target)
    for node, place in places.items():
        if place != HOST and place not in offered.get(node, set()):
            name = described(graph.nodes[node].var)
            refusal = f"cannot run here: {absent[place]}" if place in absent else _refusal(graph, node, place)
            raise PinError(
                f"{graph.name}: {name} is pinned to {place!r}, which {refusal}; pin it to a target "
                "that claims it, or to 'host'"
            )


def _refusal(graph: DataflowGraph, node: NodeId, target: str) -> str:
    """Why a target does not offer a node, in the words of its rule if it gave a reason."""
    view = OpView.of(graph.nodes[node].value)
    rule = rule_of(target, view.name) if view is not None else None
    if view is None or rule is None:
        return f"has no rule for {op_name_of(graph.nodes[node].value)}"
    answer = rule(view)
    return f"declines it: {answer}" if isinstance(answer, str) else "does not claim it in this module"
