"""Repairs of recurrent layers, of which OpenVINO 2026.4 exchanges steps and sequences.

It turns the data of such a layer, and drops the turn where the layer itself can take the other order. If
others read the turned data, such as the layer of the other direction, they get it in the wrong order::

    LSTM(x, ..., direction="forward"), LSTM(x, ..., direction="reverse")        wrong
    c = Max(x, x), LSTM(c, ...), d = Max(c, c), LSTM(d, ...)        right

Two copies of the same value would be one again.
"""

from __future__ import annotations

from collections import Counter

from annotated_region.backends.onnx_emitter.copies import copied
from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["RECURRENT", "give_sequences_their_own"]

RECURRENT = frozenset(("GRU", "LSTM", "RNN"))


def give_sequences_their_own(graph: Graph) -> None:
    """Let each recurrent layer read a copy of its data where others read the data, too."""
    readers = Counter(name for each in graph.operators for name in dict.fromkeys(each.inputs))
    readers.update(port.name for port in graph.outputs)
    latest: dict[str, str] = {}
    operators: list[Operator] = []
    for each in graph.operators:
        if each.kind not in RECURRENT or readers[each.inputs[0]] == 1:
            operators.append(each)
            continue
        data, *others = each.inputs
        copy = graph.declare(graph.fresh("copied"), graph.dtypes[data])
        operators.append(copied(graph, latest.get(data, data), copy))
        operators.append(Operator(each.kind, (copy, *others), each.outputs, each.attrs))
        latest[data] = copy
    graph.operators = operators
