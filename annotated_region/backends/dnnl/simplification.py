"""Rewrites before fusion: linear functions joined or dropped, local response normalisation rebuilt."""

from __future__ import annotations

from dataclasses import replace

from annotated_region.backends.dnnl.graph import Graph, Kind, Node, TensorId

__all__ = ["drop_identities", "join_linear_functions", "rebuild_lrn"]


def join_linear_functions(graph: Graph) -> None:
    """``c * (a * x + b) + d`` becomes ``(c * a) * x + (c * b + d)`` where nobody else reads the inner one."""
    uses = graph.use_counts()
    made: dict[TensorId, Node] = {}
    for node in graph.nodes:
        inner = made.get(node.inputs[0]) if _is_linear(node) else None
        if inner is not None and _is_linear(inner) and uses[inner.output] == 1:
            (outer_scale, outer_shift), (scale, shift) = node.floats, inner.floats
            floats = (outer_scale * scale, outer_scale * shift + outer_shift)
            made.pop(inner.output)
            made[node.output] = replace(node, inputs=inner.inputs, floats=floats)
        else:
            made[node.output] = node
    graph.nodes = list(made.values())


def drop_identities(graph: Graph) -> None:
    """``1 * x + 0`` becomes x, where x is computed for this alone."""
    uses = graph.use_counts()
    made: dict[TensorId, Node] = {}
    for node in graph.nodes:
        inner = made.get(node.inputs[0]) if _is_linear(node) and node.floats == (1.0, 0.0) else None
        if inner is not None and uses[inner.output] == 1 and not node.post_ops:
            made.pop(inner.output)
            made[node.output] = replace(inner, output=node.output)
        else:
            made[node.output] = node
    graph.nodes = list(made.values())


def _is_linear(node: Node) -> bool:
    return node.kind is Kind.ELTWISE and node.algorithm == "eltwise_linear"


def rebuild_lrn(graph: Graph) -> None:
    """Find the arithmetic that ONNX's LRN is imported as, and put one LRN node in its place.

    ::

        x --> x * x --> view --> avg_pool3d over channels --> view --> alpha * . + k --> . ^ beta
        |                                                                                  |
        +-----------------------------------> divide <-------------------------------------+
    """
    made = {node.output: node for node in graph.nodes}
    graph.nodes = [_lrn_or_same(graph, node, made) for node in graph.nodes]
    graph.remove_dead_nodes()


def _lrn_or_same(graph: Graph, node: Node, made: dict[TensorId, Node]) -> Node:
    if node.kind is not Kind.BINARY or node.algorithm != "binary_div":
        return node
    data, divisor = node.inputs
    chain = _chain(
        made, divisor, (Kind.ELTWISE, Kind.ELTWISE, Kind.RESHAPE, Kind.POOLING, Kind.RESHAPE, Kind.BINARY)
    )
    if chain is None or len(graph.shape(data)) != 4:
        return node
    power, linear, _, pool, view, square = chain
    channels, rows, columns = graph.shape(data)[1:]
    is_lrn = (
        (power.algorithm, linear.algorithm) == ("eltwise_pow", "eltwise_linear")
        and power.floats[0] == 1.0
        and square.algorithm == "binary_mul"
        and square.inputs == (data, data)
        and graph.shape(view.output)[1:] == (1, channels, rows, columns)
        and _is_mean_over_channels(pool)
    )
    if not is_lrn:
        return node
    alpha, shift = linear.floats
    return replace(
        node,
        kind=Kind.LRN,
        algorithm="lrn_across_channels",
        inputs=(data,),
        ints=(pool.ints[0],),
        floats=(alpha, power.floats[1], shift),
    )


def _is_mean_over_channels(pool: Node) -> bool:
    size = pool.ints[0]
    expected = (size, 1, 1, 1, 1, 1, 0, 0, 0, size // 2, 0, 0, size // 2, 0, 0)
    return pool.algorithm == "pooling_avg_include_padding" and size % 2 == 1 and pool.ints == expected


def _chain(made: dict[TensorId, Node], tensor: TensorId, kinds: tuple[Kind, ...]) -> tuple[Node, ...] | None:
    """The producers that lead to `tensor`, from the last to the first, if they are of these kinds."""
    found: list[Node] = []
    for kind in kinds:
        node = made.get(tensor)
        if node is None or node.kind is not kind:
            return None
        found.append(node)
        tensor = node.inputs[0]
    return tuple(found)
