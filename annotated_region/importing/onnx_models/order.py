"""Puts the nodes of an ONNX graph into an order in which each follows those that it reads.

ONNX requires such an order, and ONNX Runtime does not: it sorts the nodes when it loads a model. So there are
converters whose models are not sorted, as those to float16 that append the conversions of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from annotated_region.graphs.cycles import CycleError
from annotated_region.graphs.dag import Dag
from annotated_region.graphs.ordering import program_order
from annotated_region.importing.onnx_models.functions import bodies_of, nodes_of

if TYPE_CHECKING:
    import onnx

__all__ = ["in_order"]


def in_order(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    """The nodes in order; among those that may come next, the first one given is the next.

    Nodes that are in order, or that form a cycle, are returned as they are. Those of branches and loops are
    not sorted.
    """
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    pairs = [
        (makers[name], number)
        for number, node in enumerate(nodes)
        for name in _read_by(node)
        if name in makers
    ]
    if all(maker < reader for maker, reader in pairs):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for maker, reader in pairs:
        readers[maker].append(reader)
    try:
        return [nodes[number] for (number,) in program_order(Dag(readers))]
    except CycleError:
        return nodes


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node reads, and those that are read, or returned, in its branches and loops."""
    for each in nodes_of([node]):
        yield from each.input
        for body in bodies_of(each):
            yield from (value.name for value in body.output)
