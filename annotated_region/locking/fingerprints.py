"""Fingerprints of ops: of each alone, and of each with its neighbours and theirs.

The fingerprint of an op alone covers its name, attributes, result type and operands: values, or
constants with their type. Names of variables and data of constants are excluded, so a model with other
weights has the same fingerprints. Neighbours are added by Weisfeiler-Lehman colour refinement: in
each of two rounds, an op's fingerprint is combined with those of its operands, in order, and of its users,
sorted. So an edit changes only fingerprints within two steps, and more distant lines of a lock
are unchanged.
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
    """The label of each op of a function, by node, in program order.

    Ops are all nodes except literals and structure nodes. Keys are those of `OperationNames`; the second node
    with the same key gets the suffix ``#2``. O(nodes + edges).
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
    """The key of each op, distinct from the keys of earlier ops."""
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
    """The fingerprint of a node combined with those of its neighbours."""
    read = ["parameter" if edge.producer < 0 else known[edge.producer] for edge in graph.into[number]]
    readers = sorted(
        known[edge.consumer] if edge.consumer >= 0 else "result" if edge.consumer == RESULT else ""
        for edge in graph.out_of[number]
    )
    return _digest([known[number], *read, "read by", *readers])


def _digest(parts: Iterable[str]) -> str:
    # Each part is prefixed with its length, so that different lists have different texts.
    text = "".join(f"{len(part)} {part}" for part in parts)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
