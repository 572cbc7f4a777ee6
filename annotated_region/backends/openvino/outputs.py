"""Results that share memory with what other operators read become copies, because OpenVINO overwrites them.

e = Exp(x), r = Reshape(e), y = Conv(Transpose(e))        results r and y: y is wrong in OpenVINO 2026.4
e = Exp(x), v = Reshape(e), r = Max(v, v), y = ...        right: r has memory of its own
"""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["copy_views"]

_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze"))


def copy_views(graph: Graph) -> None:
    """Let results that are views of values with other readers be made by an operator that copies."""
    makers = {name: each for each in graph.operators for name in each.outputs}
    for port in graph.outputs:
        if _is_shared_view(graph, makers, port.name):
            view = graph.fresh(f"{port.name}_view")
            graph.rename(port.name, view)
            graph.dtypes[port.name] = graph.dtypes[view]
            kind = "Or" if graph.dtypes[view] == "bool" else "Max"
            graph.operators.append(Operator(kind, (view, view), (port.name,), {}))


def _is_shared_view(graph: Graph, makers: dict[str, Operator], name: str) -> bool:
    """Whether a value is a view, by way of others perhaps, of one that something else reads."""
    while name in makers and makers[name].kind in _VIEWS:
        name = makers[name].inputs[0]
        if sum(name in each.inputs for each in graph.operators) > 1:
            return True
    return False
