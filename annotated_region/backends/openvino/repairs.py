"""What OpenVINO 2026.4 makes of right graphs that are wrong: copies in two places keep it from that.

A result that is a view of what something else reads shares its memory, and is overwritten:

    e = Exp(x), r = Reshape(e), y = Conv(Transpose(e))        results r and y: y is wrong
    e = Exp(x), v = Reshape(e), r = Max(v, v), y = ...        right

A factor in front of a convolution goes into the kernel, also one that differs along the rows or columns:

    m = Mul(x, [2, 0.5]), y = Conv(m, w)        wrong, if w is two wide
    m = Mul(x, [2, 0.5]), c = Max(m, m), y = Conv(c, w)        right
"""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["repair"]

_VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
# What OpenVINO joins to one factor and one summand.
_LINEAR = frozenset(("Add", "Div", "Mul", "Sub"))
# What may stand between that and a convolution: it becomes a part of either, or nothing.
_BETWEEN = frozenset(
    ("BatchNormalization", "Cast", "Identity", "Neg", "Pad", "Reshape", "Squeeze", "Unsqueeze")
)


def repair(graph: Graph) -> None:
    """Put copies where OpenVINO needs them; the graph computes the same."""
    makers = {name: each for each in graph.operators for name in each.outputs}
    for port in graph.outputs:
        if _is_shared_view(graph, makers, port.name):
            view = graph.fresh(f"{port.name}_view")
            graph.rename(port.name, view)
            graph.dtypes[port.name] = graph.dtypes[view]
            graph.operators.append(_copy(graph, view, port.name))
    graph.operators = [each for operator in graph.operators for each in _apart(graph, makers, operator)]


def _copy(graph: Graph, name: str, copy: str) -> Operator:
    """An operator that copies, and that OpenVINO does not take for one that does nothing."""
    return Operator("Or" if graph.dtypes[name] == "bool" else "Max", (name, name), (copy,), {})


def _is_shared_view(graph: Graph, makers: dict[str, Operator], name: str) -> bool:
    """Whether a value is a view, by way of others perhaps, of one that something else reads."""
    while name in makers and makers[name].kind in _VIEWS:
        name = makers[name].inputs[0]
        if sum(name in each.inputs for each in graph.operators) > 1:
            return True
    return False


def _apart(graph: Graph, makers: dict[str, Operator], operator: Operator) -> tuple[Operator, ...]:
    """The operator, and in front of a convolution the copy of data that was scaled."""
    if operator.kind != "Conv" or not _is_scaled(graph, makers, operator.inputs[0]):
        return (operator,)
    data, *rest = operator.inputs
    copy = graph.declare(graph.fresh("scaled"), graph.dtypes[data])
    return _copy(graph, data, copy), Operator(operator.kind, (copy, *rest), operator.outputs, operator.attrs)


def _is_scaled(graph: Graph, makers: dict[str, Operator], name: str) -> bool:
    """Whether a value is a linear function of another by constants that are more than one number."""
    operator = makers.get(name)
    if operator is None:
        return False
    if operator.kind in _BETWEEN:
        return _is_scaled(graph, makers, operator.inputs[0])
    if operator.kind not in _LINEAR:
        return operator.kind == "LayerNormalization"  # it ends in a factor and a summand
    known = [_is_constant(graph, makers, each) for each in operator.inputs]
    if not any(known):
        return False
    constant, other = operator.inputs if known[0] else reversed(operator.inputs)
    is_one_number = constant in graph.constants and graph.constants[constant].size == 1
    return not is_one_number or _is_scaled(graph, makers, other)


def _is_constant(graph: Graph, makers: dict[str, Operator], name: str) -> bool:
    if name in graph.constants or name in graph.weights:
        return True
    return name in makers and all(_is_constant(graph, makers, each) for each in makers[name].inputs if each)
