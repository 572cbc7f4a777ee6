"""The verifier finds what is wrong with a graph: each kind of damage to a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from annotated_region.backends.dnnl.graph import DataType, Graph, Kind, Node, PostOp
from annotated_region.backends.dnnl.parameters import Arithmetic, Begins, Concat, Permutation, Scale, Softmax
from annotated_region.testing.dnnl_verifier import verify


def sound() -> Graph:
    graph = Graph("sound")
    x = graph.tensor((2, 3, 4), source=0)
    w = graph.tensor((1, 4, 4), source="w")
    graph.inputs = [x]
    product = graph.add(Kind.MATMUL, (x, w), (2, 3, 4))
    turned = graph.add(Kind.PERMUTE, (product,), (3, 2, 4), Permutation((1, 0, 2)))
    part = graph.add(Kind.SLICE, (turned,), (3, 2, 2), Begins((0, 0, 1), (1, 1, 2)))
    both = graph.add(Kind.CONCAT, (part, part), (3, 2, 4), Concat(2))
    flat = graph.add(Kind.RESHAPE, (both,), (3, 8))
    graph.outputs = [graph.add(Kind.SOFTMAX, (flat,), (3, 8), Softmax(1))]
    return graph


def changed(position: int, **changes: Any) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.nodes[position] = replace(graph.nodes[position], **changes)

    return change


def reshaped(tensor: int, *shape: int) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.tensors[tensor] = replace(graph.tensors[tensor], shape=shape)

    return change


def retyped(graph: Graph) -> None:
    graph.tensors[3] = replace(graph.tensors[3], dtype=DataType.INT8)


def twice(graph: Graph) -> None:
    graph.nodes.append(graph.nodes[0])


def quantized(graph: Graph) -> None:
    graph.nodes.append(Node(Kind.QUANTIZE, (0,), graph.tensor((2, 3, 4)), Scale(1.0, 0)))


DAMAGES: dict[str, tuple[Callable[[Graph], None], str]] = {
    "order": (lambda graph: graph.nodes.reverse(), "before it is made"),
    "made_twice": (twice, "makes a tensor that there was before"),
    "result": (lambda graph: graph.outputs.append(graph.tensor((2, 3, 4))), "is not made"),
    "matrices": (reshaped(1, 1, 5, 4), "the matrices do not fit"),
    "stacks": (reshaped(1, 3, 4, 4), "the stacks cannot be repeated"),
    "permutation": (changed(1, parameters=Permutation((0, 0, 2))), "the axes are not a permutation"),
    "permuted": (changed(1, parameters=Permutation((0, 1, 2))), "not those of the permuted operand"),
    "slice": (
        changed(2, parameters=Begins((0, 0, 2), (1, 1, 2))),
        "2 elements from 2 by 2 leave an axis of 4",
    ),
    "concat": (changed(3, parameters=Concat(1)), "does not fit"),
    "reshape": (reshaped(6, 3, 9), "24 elements become 27"),
    "axis": (changed(5, parameters=Softmax(2)), "there is no such axis"),
    "chain": (changed(0, post_ops=(PostOp("binary_add", operand=1),)), "reads extents"),
    "type": (retyped, "moves"),
    "quantized": (quantized, "quantizes"),
    "broadcast": (
        lambda graph: graph.nodes.append(
            Node(Kind.BINARY, (0, 1), graph.tensor((2, 3, 4)), Arithmetic("binary_add"))
        ),
        "the second operand cannot be repeated",
    ),
}


def test_a_sound_graph_passes() -> None:
    verify(sound(), "the test")


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found(name: str) -> None:
    damage, message = DAMAGES[name]
    graph = sound()
    verify(graph, "what came before")  # a graph that stays as it is is looked at once
    damage(graph)
    with pytest.raises(AssertionError, match=message):
        verify(graph, "the test")
