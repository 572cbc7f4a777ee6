"""What annotations mean, told a second time and without the package: slowly, by their definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import tvm
from tvm import relax

__all__ = ["Malformed", "Reading", "inputs_and_outputs", "listing_of", "quotient_is_acyclic", "read"]

BEGIN, END = "relax.annotation.compiler_begin", "relax.annotation.compiler_end"
RESULT = "result"

Token = tuple[str, tuple[str, str]]
"""An annotation: the name of its op, its target and label."""

Reading = set[tuple[str, str, frozenset[relax.Var]]]
"""Regions as (target, label, nodes)."""


class Malformed(Exception):
    """The annotations contradict each other."""


@dataclass
class Use:
    """A value on its way to a consumer: the variable it comes from, and the annotations it passes."""

    producer: Any
    tokens: list[Token]
    consumer: Any


@dataclass
class Listing:
    """A function as a list of uses."""

    uses: list[Use] = field(default_factory=list)
    scope: dict[relax.Var, int] = field(default_factory=dict)
    value: dict[relax.Var, Any] = field(default_factory=dict)
    annotation: dict[relax.Var, tuple[str, tuple[str, str], Any]] = field(default_factory=dict)
    casts: set[relax.Var] = field(default_factory=set)
    carriers: set[relax.Var] = field(default_factory=set)
    used: set[relax.Var] = field(default_factory=set)
    scopes: int = 0

    def kind(self, var: Any) -> str:
        if var not in self.value:
            return "outside"
        value = self.value[var]
        if isinstance(value, relax.If | relax.Function) or var in self.casts or not _is_pure(value):
            return "outside"
        computed = isinstance(value, tvm.ir.Call | relax.Tuple | relax.TupleGetItem | relax.Var)
        return "op" if computed else "literal"


def _is_pure(value: Any) -> bool:
    if not isinstance(value, tvm.ir.Call):
        return True
    return isinstance(value.op, tvm.ir.Op) and bool(value.op.get_attr("FPurity"))


def listing_of(func: relax.Function) -> Listing:
    """All uses in a function."""
    listing = Listing()
    _list_body(listing, func.body, RESULT)
    for var, (_op, _key, _argument) in list(listing.annotation.items()):
        if var not in listing.used:
            _list_use(listing, var, None)
    return listing


def _list_body(listing: Listing, body: relax.SeqExpr, consumer: Any) -> None:
    for block in body.blocks:
        scope, listing.scopes = listing.scopes, listing.scopes + 1
        for binding in block.bindings:
            _list_binding(listing, binding, scope, isinstance(block, relax.DataflowBlock))
    for var in _vars(body.body):
        _list_use(listing, var, consumer)


def _list_binding(listing: Listing, binding: relax.Binding, scope: int, dataflow: bool) -> None:
    var, value = binding.var, binding.value
    if isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in (BEGIN, END):
        key = (str(value.attrs["compiler"]), str(value.attrs.get("region", "")))
        listing.annotation[var] = (value.op.name, key, value.args[0])
        listing.used.update(_vars(value.args[0]))
        source = _source(listing, value.args[0])[0]
        if dataflow and isinstance(source, relax.DataflowVar) and not isinstance(var, relax.DataflowVar):
            # Without annotations this would be another name for the value, so it is one with them.
            listing.carriers.add(var)
            listing.scope[var], listing.value[var] = scope, source
            listing.uses.append(Use(source, [], var))
        return
    listing.scope[var] = scope
    if isinstance(value, relax.If):
        for used in _vars(value.cond):
            _list_use(listing, used, var)
        _list_body(listing, value.true_branch, var)
        _list_body(listing, value.false_branch, var)
    elif isinstance(value, relax.Function):
        _list_body(listing, value.body, var)
    else:
        for used in _vars(value):
            _list_use(listing, used, var)
    listing.value[var] = value
    if isinstance(binding, relax.MatchCast):
        listing.casts.add(var)


def _list_use(listing: Listing, var: relax.Var, consumer: Any) -> None:
    if consumer is not None:
        listing.used.add(var)
    producer, tokens = _source(listing, var)
    listing.uses.append(Use(producer, tokens, consumer))


def _source(listing: Listing, var: Any) -> tuple[Any, list[Token]]:
    """Where a value comes from, and the annotations on its way."""
    tokens: list[Token] = []
    producer = var
    while producer in listing.annotation:
        op, key, argument = listing.annotation[producer]
        tokens.insert(0, (op, key))
        if producer in listing.carriers:
            return producer, [*_source(listing, argument)[1], *tokens]
        producer = argument
    return producer, tokens


def _vars(expr: Any) -> Iterator[relax.Var]:
    if isinstance(expr, tvm.ir.Var):
        yield expr
    elif isinstance(expr, tvm.ir.Call):
        yield from (var for argument in (*expr.args, expr.op) for var in _vars(argument))
    elif isinstance(expr, relax.Tuple):
        yield from (var for part in expr.fields for var in _vars(part))
    elif isinstance(expr, relax.TupleGetItem):
        yield from _vars(expr.tuple_value)


# -- reading ------------------------------------------------------------------------------------------


def read(func: relax.Function) -> Reading:
    """The regions that the annotations of `func` describe: components of sides, nothing cleverer."""
    listing = listing_of(func)
    for use in listing.uses:
        if use.consumer is None and any(op == BEGIN for op, _key in use.tokens):
            raise Malformed("unused begin")
    keys = dict.fromkeys(key for use in listing.uses for _op, key in use.tokens)
    return {region for key in keys for region in _read_key(listing, key)}


def _read_key(listing: Listing, key: tuple[str, str]) -> Reading:
    sides = nx.Graph()
    sides.add_nodes_from([*listing.value, RESULT])
    inside: list[Any] = []
    outside = [RESULT, *(var for var in listing.value if listing.kind(var) == "outside")]
    apart = []
    for use in listing.uses:
        said = "".join("b" if op == BEGIN else "e" for op, other in use.tokens if other == key)
        literal = not isinstance(use.producer, tvm.ir.Var) or listing.kind(use.producer) == "literal"
        if said not in ("", "e", "b", "eb"):
            raise Malformed(said)
        if said == "" and not literal and use.consumer is not None:
            sides.add_edge(use.producer, use.consumer)
        if not literal and use.producer not in listing.value:
            outside.append(use.producer)
        if "e" in said:
            inside.append(use.producer)
        if "b" in said:
            inside.append(use.consumer)
        if said == "e" and use.consumer is not None:
            outside.append(use.consumer)
        if said == "b" and not literal:
            outside.append(use.producer)
        if said == "eb":
            apart.append((use.producer, use.consumer))
        if "e" in said and (literal or use.producer not in listing.value):
            raise Malformed("neither a literal nor a parameter is inside")
    return _regions_of_sides(listing, key, sides, inside, outside, apart)


def _regions_of_sides(
    listing: Listing,
    key: tuple[str, str],
    sides: nx.Graph,
    inside: Iterable[Any],
    outside: Iterable[Any],
    apart: list[tuple[Any, Any]],
) -> Reading:
    component = {}
    for number, members in enumerate(nx.connected_components(sides)):
        component.update(dict.fromkeys(members, number))
    held = {component[var] for var in inside}
    if held & {component.get(var, -1) for var in outside}:
        raise Malformed("inside and outside")
    if any(component[left] == component[right] or key[1] for left, right in apart):
        raise Malformed("apart and together")
    pieces: dict[Any, set[relax.Var]] = {}
    for var in listing.value:
        if component[var] in held:
            pieces.setdefault("one" if key[1] else component[var], set()).add(var)
    if any(len({listing.scope[var] for var in piece}) > 1 for piece in pieces.values()):
        raise Malformed("two scopes")
    return {(*key, frozenset(piece)) for piece in pieces.values()}


# -- borders and cycles --------------------------------------------------------------------------------


def inputs_and_outputs(
    func: relax.Function, nodes: Iterable[relax.Var]
) -> tuple[list[relax.Var], list[relax.Var]]:
    """What enters and leaves a set of nodes of a function without annotations."""
    listing, inside = listing_of(func), set(nodes)
    entering = [use.producer for use in listing.uses if use.consumer in inside]
    inputs = [var for var in entering if var not in inside and listing.kind(var) != "literal"]
    leaving = {use.producer for use in listing.uses if use.consumer not in inside}
    return list(dict.fromkeys(inputs)), [var for var in listing.value if var in inside & leaving]


def quotient_is_acyclic(func: relax.Function, regions: Iterable[Iterable[relax.Var]]) -> bool:
    """Whether contracting disjoint regions of a function without annotations leaves no cycle."""
    vertex: dict[Any, Any] = {var: ("region", index) for index, nodes in enumerate(regions) for var in nodes}
    graph = nx.DiGraph(
        (vertex.get(before, before), vertex.get(after, after)) for before, after in needs(func)
    )
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return bool(nx.is_directed_acyclic_graph(graph))


def needs(func: relax.Function) -> Iterator[tuple[Any, Any]]:
    """Pairs of nodes of which the first must come before the second."""
    # Shape variables of parameters come from nowhere; those that a cast defines come from the cast.
    makers = {var: None for param in func.params for var in relax.analysis.tir_vars_in_type(param.ty)}
    listing = listing_of(func)
    for before, after in [*_needs_of_body(func.body, makers), *_needs_of_memory(listing)]:
        maker = makers.get(before, before)
        if maker in listing.value and maker != after:
            yield maker, after


def _needs_of_body(body: relax.SeqExpr, makers: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for block in body.blocks:
        last_effect = None
        for binding in block.bindings:
            var, value = binding.var, binding.value
            if isinstance(binding, relax.MatchCast):
                for defined in relax.analysis.tir_vars_in_type(binding.ty):
                    makers.setdefault(defined, var)
            # Free variables of a conditional or a local function are all that its insides need.
            yield from ((used, var) for used in relax.analysis.free_vars(value))
            yield from ((used, var) for used in relax.analysis.tir_vars_in_type(var.ty))
            if isinstance(value, relax.If):
                for branch in (value.true_branch, value.false_branch):
                    yield from _needs_of_body(branch, makers)
                    yield from ((used, var) for used in _vars(branch.body))
                    inner = [each for block in branch.blocks for each in block.bindings]
                    yield from ((each.var, var) for each in inner if _has_effect(each.value))
            if isinstance(value, relax.Function):
                yield from _needs_of_body(value.body, makers)
            if _has_effect(value):
                if last_effect is not None:
                    yield last_effect, var
                last_effect = var


def _has_effect(value: Any) -> bool:
    return isinstance(value, relax.If) or _is_impure_call(value)


def _is_impure_call(value: Any) -> bool:
    if not isinstance(value, tvm.ir.Call):
        return False
    if isinstance(value.op, tvm.ir.Op):
        return not value.op.get_attr("FPurity")
    return not getattr(value.op.ty, "purity", False)


def _needs_of_memory(listing: Listing) -> Iterator[tuple[Any, Any]]:
    """Readers before and behind each call that may write into its arguments."""
    order = list(listing.value)
    for place, writer in enumerate(order):
        value = listing.value[writer]
        if not _is_impure_call(value) or getattr(value.op, "name", "") == "relax.assert_op":
            continue
        for other_place, other in enumerate(order):
            only_names = isinstance(listing.value[other], _STRUCTURE) and other not in listing.casts
            if other_place == place or only_names:
                continue
            known = order[: max(place, other_place)]
            if _memory(listing, known, writer) & _memory(listing, known, other):
                yield (other, writer) if other_place < place else (writer, other)


def _memory(listing: Listing, known: list[Any], var: Any) -> set[Any]:
    """What may share memory with an operand of `var`, by what is bound in `known`."""
    sharing = nx.Graph()
    sharing.add_nodes_from(known)
    values = [
        use for use in listing.uses if use.consumer != RESULT and listing.kind(use.producer) != "literal"
    ]
    for use in values:
        if use.consumer in known and not _is_new(listing.value[use.consumer]):
            sharing.add_edge(use.producer, use.consumer)
    operands = {use.producer for use in values if use.consumer == var}
    sharing.add_nodes_from(operands)
    return {shared for operand in operands for shared in nx.node_connected_component(sharing, operand)}


_STRUCTURE = (relax.Tuple, tvm.ir.TupleGetItem, tvm.ir.Var)


def _is_new(value: Any) -> bool:
    """Whether a value has memory of its own: the result of an op."""
    return isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op) and _is_pure(value)
