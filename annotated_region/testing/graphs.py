"""Graphs that partitioners are known to get wrong, as Relax modules in any binding order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tvm
from tvm import relax

__all__ = ["SIX_OPS", "TWO_RESOLUTIONS", "binding_orders", "module_of"]

Graph = Mapping[str, tuple[str, tuple[str, ...]]]
"""For each node: its op, and the names of its operands. Names that are not nodes are parameters."""

# Two crossing chains: each add reads the tanh of the other chain. The regions {a1, b1} and
# {a2, b2} are each convex, but form a cycle together.
SIX_OPS: Graph = {
    "a1": ("relax.nn.relu", ("x",)),
    "a2": ("relax.nn.relu", ("y",)),
    "x1": ("relax.tanh", ("a1",)),
    "y1": ("relax.tanh", ("a2",)),
    "b1": ("relax.add", ("a1", "y1")),
    "b2": ("relax.add", ("a2", "x1")),
}

# Two branches that exchange values twice, as in HRNet and BiFPN; resampling is not claimed.
TWO_RESOLUTIONS: Graph = {
    "high1": ("relax.nn.relu", ("x",)),
    "low1": ("relax.nn.relu", ("y",)),
    "down1": ("relax.tanh", ("high1",)),
    "up1": ("relax.tanh", ("low1",)),
    "high2": ("relax.add", ("high1", "up1")),
    "low2": ("relax.add", ("low1", "down1")),
    "down2": ("relax.tanh", ("high2",)),
    "up2": ("relax.tanh", ("low2",)),
    "high3": ("relax.add", ("high2", "up2")),
    "low3": ("relax.add", ("low2", "down2")),
}


def binding_orders(graph: Graph) -> Iterator[tuple[str, ...]]:
    """All orders in which the nodes can be bound, lexicographically by their order in `graph`."""

    def extend(done: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(done) == len(graph):
            yield done
        for name, (_op, operands) in graph.items():
            if name not in done and all(operand in done or operand not in graph for operand in operands):
                yield from extend((*done, name))

    return extend(())


def module_of(
    graph: Graph, order: Sequence[str] | None = None, shape: Sequence[int] = (2, 3)
) -> tvm.IRModule:
    """A module whose ``main`` computes `graph` in float32, bound in the given order.

    It returns the tuple of all values that no other node uses.
    """
    used = [operand for _op, operands in graph.values() for operand in operands]
    parameters = [
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name in dict.fromkeys(used)
        if name not in graph
    ]
    values: dict[str, relax.Expr] = {param.name: param for param in parameters}
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            for name in order or tuple(graph):
                op, operands = graph[name]
                call = relax.Call(tvm.ir.Op.get(op), [values[operand] for operand in operands])
                values[name] = builder.emit(call, name_hint=name)
            results = [values[name] for name in graph if name not in used]
            output = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()
