"""Fingerprints of ops: of each alone, and of each with its neighbours and theirs.

An op alone is what it computes, its attributes, the type of its result and what it reads: a value, or a
constant of which type. Names do not count, and neither does what constants hold, so that a model with other
weights has the same fingerprints. Neighbours are added as Weisfeiler and Lehman refine colours of graphs: in
each of two rounds an op's fingerprint takes in those of what it reads, in order, and of what reads it,
sorted. So an edit changes the fingerprints two steps around it, and lines of a lock that stand further away
stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from tvm import relax

from annotated_region.dataflow.graph import RESULT, DataflowGraph, DataflowNode, NodeKind
from annotated_region.findings.wording import words_for_type
from annotated_region.ids import NodeId
from annotated_region.locking.alignment import OpLabel
from annotated_region.policies.operation_names import OperationNames
from annotated_region.regions.op_names import op_name_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["labels_of"]

_DIGITS = 8
_ROUNDS = 2


def labels_of(graph: DataflowGraph) -> dict[NodeId, OpLabel]:
    """By node, what each op of a function is known by, in program order.

    Ops are all nodes but literals and what moves no data. Keys are those of `OperationNames`; of two nodes
    that would have one key the second has ``#2`` behind it. O(nodes + edges).
    """
    local = [_local(graph, node) for node in graph.nodes]
    around = local
    for _round in range(_ROUNDS):
        around = [_refined(graph, number, around) for number, _node in graph.numbered()]
    keys = _unique_keys(graph, OperationNames.of(graph).keys())
    return {
        number: OpLabel(key, op_name_of(graph.nodes[number].value), local[number], around[number])
        for number, key in keys.items()
    }


def _unique_keys(graph: DataflowGraph, keys: Mapping[NodeId, str]) -> dict[NodeId, str]:
    """The key of each op, which is none of an operation before."""
    found: dict[NodeId, str] = {}
    taken = dict.fromkeys(keys.values())
    for number, node in graph.numbered():
        if node.kind is NodeKind.OPERATION:
            found[number] = keys[number]
        elif node.kind is NodeKind.BOUNDARY:
            found[number] = _free(node.var.name, taken)
            taken[found[number]] = None
    return found


def _free(name: str, taken: Mapping[str, None]) -> str:
    key, count = name, 1
    while key in taken:
        count += 1
        key = f"{name}#{count}"
    return key


def _local(graph: DataflowGraph, node: DataflowNode) -> str:
    return _digest([op_name_of(node.value), words_for_type(node.var.ty), *_contents(graph, node.value)])


def _contents(graph: DataflowGraph, value: relax.Expr) -> Iterator[str]:
    """Attributes and arguments of a binding."""
    view = OpView.of(value)
    if view is not None:
        for name, said in sorted(view.attrs.items()):
            yield f"{name}={said}"
    if isinstance(value, relax.TupleGetItem):
        yield str(value.index)
    for argument in value.args if isinstance(value, relax.Call) else ():
        yield _argument(graph, argument)


def _argument(graph: DataflowGraph, argument: relax.Expr) -> str:
    number = graph.number_of(argument) if isinstance(argument, relax.Var) else None
    if number is not None and graph.nodes[number].kind is NodeKind.LITERAL:
        argument = graph.nodes[number].value
    match argument:
        case relax.Var() | Constant():
            return (
                f"{'value' if isinstance(argument, relax.Var) else 'constant'} {words_for_type(argument.ty)}"
            )
        case relax.Tuple():
            return f"({', '.join(_argument(graph, each) for each in argument.fields)})"
        case relax.GlobalVar() | relax.Function():
            return "a function"
    return str(argument)


def _refined(graph: DataflowGraph, number: NodeId, known: list[str]) -> str:
    """The fingerprint of a node with those of its neighbours."""
    read = ["parameter" if edge.producer < 0 else known[edge.producer] for edge in graph.into[number]]
    readers = sorted(
        known[edge.consumer] if edge.consumer >= 0 else "result" if edge.consumer == RESULT else ""
        for edge in graph.out_of[number]
    )
    return _digest([known[number], *read, "read by", *readers])


def _digest(parts: Iterable[str]) -> str:
    # The length of each part stands before it, so that no two lists have one text.
    text = "".join(f"{len(part)} {part}" for part in parts)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
