"""Records origins in an imported module: each binding gets the origin of its node.

An importer may emit several bindings for one node (three for a convolution with a bias), and reports only the
expression of the node's result. But no other node can read the intermediate values, so a
binding that is not a result belongs to the node of its user::

    lv  = conv2d(x, w)                      /conv1/Conv, because lv2 is
    lv1 = reshape(b, (1, 64, 1, 1))         /conv1/Conv
    lv2 = add(lv, lv1)                      /conv1/Conv: the result reported by the importer
    lv3 = relu(lv2)                         /relu/Relu
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tvm
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.functions.rewriting import replace_operands
from annotated_region.origins import bounded, span_of

if TYPE_CHECKING:
    import onnx

__all__ = ["NodeResults", "OnnxOrigins", "with_origins"]


class NodeResults:
    """The result expressions of nodes, each with the origin of its first node.

    A node that returns its operand (``Identity``, ``Dropout``) creates no expression.
    """

    def __init__(self) -> None:
        self._origins: ExprMap[str] = ExprMap()

    def note(self, result: object, origin: str) -> None:
        """Record the result of a node: one or several expressions."""
        if isinstance(result, tuple | list):
            for each in result:
                self.note(each, origin)
        elif isinstance(result, relax.Tuple):
            self.note(list(result.fields), origin)
        elif isinstance(result, relax.Var | relax.Call | relax.TupleGetItem | relax.If):
            self._origins.setdefault(result, origin)

    def origin_of(self, binding: relax.Binding) -> str | None:
        """The origin of the node whose result a binding is, if there is one."""
        return self._origins.get(binding.value) or self._origins.get(binding.var)


class OnnxOrigins:
    """The origins of the nodes of an ONNX model, and their results.

    The origin of a node is its name. If it has none, or the name is not unique, it is its type
    and the first output that it has, ``"Conv:conv1_out"``, which is unique in a graph.

    Parameters
    ----------
    model
        The user's model. The imported model may be an upgraded version, in which ONNX's converter
        renamed nodes; nodes that define the same value are identified with each other.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.results = NodeResults()
        nodes = list(_nodes_in(model.graph))
        self._names = Counter(node.name for node in nodes)
        outputs = Counter(output for node in nodes for output in node.output)
        # Branches of an If may use the same value names.
        self._known = {
            output: self._called(node) for node in nodes for output in node.output if outputs[output] == 1
        }

    def note(self, node: onnx.NodeProto, result: object) -> None:
        """Record the result of a node."""
        self.results.note(result, self.origin_of(node))

    def origin_of(self, node: onnx.NodeProto) -> str:
        """The origin of a node."""
        known = (self._known[output] for output in node.output if output in self._known)
        return next(known, None) or self._called(node)

    def _called(self, node: onnx.NodeProto) -> str:
        if node.name and self._names[node.name] == 1:
            return str(node.name)
        return f"{node.op_type}:{next(filter(None, node.output), '')}"


def _nodes_in(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _nodes_in(body)


def with_origins(mod: tvm.IRModule, results: NodeResults) -> tvm.IRModule:
    """The module with the origin of each binding recorded.

    Parameters
    ----------
    mod
        The imported module; it is not changed.
    results
        The results of the nodes.

    Notes
    -----
    Linear in the bindings and their operands.
    """
    known = mod.clone()
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            bindings = list(bindings_in(func.body))
            origins = _origins_in(bindings, results)
            spans = {origin: span_of(bounded(origin)) for origin in dict.fromkeys(origins) if origin}
            named = ((each, spans[origin]) for each, origin in zip(bindings, origins, strict=True) if origin)
            known.update_func(global_var, marked(func, ExprMap(named)))
    return known


def _origins_in(bindings: Sequence[relax.Binding], results: NodeResults) -> list[str | None]:
    """For each binding, the origin of its node; None for all of them if none is known."""
    reader: ExprMap[str] = ExprMap()
    origins: list[str | None] = []
    # In reverse order, so that users come first; an unused binding gets the origin of its successor.
    behind: str | None = None
    for binding in reversed(bindings):
        behind = results.origin_of(binding) or reader.get(binding.var) or behind
        origins.append(behind)
        if behind is not None:
            for operand in _operands(binding.value):
                reader[operand] = behind
    return origins[::-1]


def _operands(value: relax.Expr) -> list[relax.Expr]:
    found: list[relax.Expr] = []

    def noted(expr: relax.Expr) -> relax.Expr:
        found.append(expr)
        return expr

    replace_operands(value, noted)
    return found
