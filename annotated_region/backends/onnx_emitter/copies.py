"""Copies of values, for engines whose optimizers mistreat a value with certain other readers."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.graph import Graph, Operator, Port

__all__ = ["copied", "copy_output", "is_copy"]


def copied(graph: Graph, name: str, copy: str) -> Operator:
    """A copying operator that no engine recognizes as the identity."""
    return Operator("Or" if graph.dtypes[name] == "bool" else "Max", (name, name), (copy,), {})


def is_copy(operator: Operator) -> bool:
    """Whether an operator copies, so that an engine fuses nothing behind it with what is in front."""
    return operator.kind in ("Max", "Or") and operator.inputs[1:] == operator.inputs[:1]


def copy_output(graph: Graph, port: Port, stem: str) -> None:
    """Make an output of the graph a copy of the value, which keeps its readers under a new name."""
    value = graph.fresh(stem)
    graph.rename(port.name, value)
    graph.dtypes[port.name] = graph.dtypes[value]
    graph.operators.append(copied(graph, value, port.name))
