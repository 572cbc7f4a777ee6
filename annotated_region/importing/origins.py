"""Writes down what an imported module was made from: each binding gets the origin of its node.

An importer makes several bindings of one node (a convolution with a bias, three), and says which expression
stands for the node's result, not which bindings led there. But no other node can read what lies between, so a
binding that is no result belongs to the node of whatever reads it::

    lv  = conv2d(x, w)                      /conv1/Conv, because lv2 is
    lv1 = reshape(b, (1, 64, 1, 1))         /conv1/Conv
    lv2 = add(lv, lv1)                      /conv1/Conv: the importer's answer for the node
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
    """The expressions that an importer made of nodes, each with the origin of the first such node.

    A node that hands on what it gets (``Identity``, ``Dropout``) has made nothing.
    """

    def __init__(self) -> None:
        self._origins: ExprMap[str] = ExprMap()

    def note(self, result: object, origin: str) -> None:
        """Note what a node became: an expression, or several."""
        if isinstance(result, tuple | list):
            for each in result:
                self.note(each, origin)
        elif isinstance(result, relax.Tuple):
            self.note(list(result.fields), origin)
        elif isinstance(result, relax.Var | relax.Call | relax.TupleGetItem | relax.If):
            self._origins.setdefault(result, origin)

    def origin_of(self, binding: relax.Binding) -> str | None:
        """The origin of the node that made a binding, if it is the result of one."""
        return self._origins.get(binding.value) or self._origins.get(binding.var)


class OnnxOrigins:
    """The origins of the nodes of an ONNX model, and what an importer makes of each.

    A node is called by its name. Where it has none, or another node has the same, it is called by its type
    and its first output, ``"Conv:conv1_out"``, of which ONNX allows no second one in a graph.

    Parameters
    ----------
    model
        The model as the user knows it. What is imported may be a later version of it, in which the converter
        of ONNX has named nodes; those that compute the same value are taken for the same.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.results = NodeResults()
        nodes = list(_nodes_in(model.graph))
        self._names = Counter(node.name for node in nodes)
        outputs = Counter(output for node in nodes for output in node.output)
        # Branches of an If may call their values alike.
        self._known = {
            output: self._called(node) for node in nodes for output in node.output if outputs[output] == 1
        }

    def note(self, node: onnx.NodeProto, result: object) -> None:
        """Note what a node became."""
        self.results.note(result, self.origin_of(node))

    def origin_of(self, node: onnx.NodeProto) -> str:
        """What a node is called."""
        known = (self._known[output] for output in node.output if output in self._known)
        return next(known, None) or self._called(node)

    def _called(self, node: onnx.NodeProto) -> str:
        if node.name and self._names[node.name] == 1:
            return str(node.name)
        return f"{node.op_type}:{node.output[0] if node.output else ''}"


def _nodes_in(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _nodes_in(body)


def with_origins(mod: tvm.IRModule, results: NodeResults) -> tvm.IRModule:
    """The module with the origin of each binding written down.

    Parameters
    ----------
    mod
        What an importer made; it is not changed.
    results
        What the importer made of each node.

    Notes
    -----
    Linear in the bindings and their operands.
    """
    known = mod.clone()
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            bindings = list(bindings_in(func.body))
            origins = _settled(bindings, results)
            spans = {origin: span_of(bounded(origin)) for origin in dict.fromkeys(origins) if origin}
            named = ((each, spans[origin]) for each, origin in zip(bindings, origins, strict=True) if origin)
            known.update_func(global_var, marked(func, ExprMap(named)))
    return known


def _settled(bindings: Sequence[relax.Binding], results: NodeResults) -> list[str | None]:
    """For each binding the origin of its node; None for all of them if none is known."""
    reader: ExprMap[str] = ExprMap()
    origins: list[str | None] = []
    # Backwards, so that readers come first; what nothing reads goes with what stands behind it.
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
