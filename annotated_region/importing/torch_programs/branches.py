"""Both branches of ``torch.cond`` computed, and the results of one of them chosen.

Exported branches have no effects, so that both may be computed, if neither fails where it is not taken:
branches that divide integers or look places up are left alone::

    (y,) = cond(p, f, g, (x,))        y = where(p, f(x), g(x))
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.nodes import NodeMaker, is_whole_division, name_of

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["compute_both_branches"]

_LOOKUPS = {"embedding", "gather", "index", "index_put", "index_select", "scatter", "scatter_add", "take"}


def compute_both_branches(program: torch.export.ExportedProgram) -> None:
    """Compute both branches wherever that cannot fail, and choose; nested branches from the inside."""
    _choose(program.graph_module)


def _choose(module: fx.GraphModule) -> None:
    for node in list(module.graph.nodes):
        if str(node.target) != "cond" or node.op != "call_function":
            continue
        condition, *names = node.args[:3]
        branches = [getattr(module, each.target) for each in names]
        for each in branches:
            _choose(each)
            each.graph.eliminate_dead_code()
        # A condition of extents is a number, and no tensor.
        is_tensor = hasattr(getattr(condition, "meta", {}).get("val"), "ndim")
        if is_tensor and all(map(_is_safe, branches)):
            _replace(module.graph, node, [each.graph for each in branches])


def _is_safe(branch: fx.GraphModule) -> bool:
    """Whether a branch cannot fail where it is not taken."""
    return not any(
        node.op not in ("placeholder", "call_function", "output")
        or str(node.target) == "cond"
        or name_of(node) in _LOOKUPS
        or is_whole_division(node)
        for node in branch.graph.nodes
    )


def _replace(graph: fx.Graph, node: fx.Node, branches: Sequence[fx.Graph]) -> None:
    """Replace the results of a node by those that its condition chooses from copies of both branches."""
    condition, given = node.args[0], node.args[3]
    with graph.inserting_before(node):
        nodes = NodeMaker(graph, condition)
        single = nodes.call(nodes.aten.view.default, condition, [])
        results = [_copied(graph, branch, given) for branch in branches]
        chosen = [nodes.call(nodes.aten.where.self, single, *pair) for pair in zip(*results, strict=True)]
    for user in list(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(chosen[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)


def _copied(graph: fx.Graph, branch: fx.Graph, given: Sequence[fx.Node]) -> Sequence[fx.Node]:
    """The results of a copy of a branch."""
    places = dict(zip(branch.find_nodes(op="placeholder"), given, strict=True))
    found: Sequence[fx.Node] = graph.graph_copy(branch, places)
    return found
