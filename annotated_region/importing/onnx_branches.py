"""TVM's importer of ONNX graphs, which takes branches that are known and knows what is known at entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.functions.shape_variables import variables_in
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.onnx_importer import OnnxGraphImporter
from annotated_region.tvm_adapter.types import shape_vars_of

if TYPE_CHECKING:
    import onnx

__all__ = ["BranchingImporter"]


class BranchingImporter(OnnxGraphImporter):
    """An importer that converts an `If` of a constant as the branch that is taken."""

    _is_in_branch = False

    def is_known_at_entry(self, number: relax.Expr | int) -> bool:
        """Whether every call of the function computes a number from the extents of its inputs alone.

        What a branch of an `If` needs, calls that take the other branch need not fulfil.
        """
        inputs = [each for each in self._inputs.values() if isinstance(each, relax.Var)]
        known = {extent for each in inputs for extent in shape_vars_of(each.ty)}
        return not self._is_in_branch and known.issuperset(variables_in(number))

    def _convert_subgraph(self, bb: relax.BlockBuilder, graph: onnx.GraphProto) -> relax.Expr:
        before, self._is_in_branch = self._is_in_branch, True
        converted = super()._convert_subgraph(bb, graph)
        self._is_in_branch = before
        return converted

    def _noted(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            branch = self._branch_taken(node)
            yield from super()._noted([node]) if branch is None else self._inlined(node, branch)

    def _branch_taken(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch of an `If` whose condition is a constant; PyTorch asks so whether an extent is 1."""
        condition = self._nodes.get(node.input[0]) if node.op_type == "If" else None
        if not isinstance(condition, Constant) or condition.value.numpy().size != 1:
            return None
        taken = "then_branch" if condition.value.numpy().item() else "else_branch"
        return next(each.g for each in node.attribute if each.name == taken)

    def _inlined(self, node: onnx.NodeProto, branch: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """The nodes of a branch; its results are those of the `If`. ONNX's names of values are unique."""
        self._nodes |= {each.name: relax.const(self._parse_array(each)) for each in branch.initializer}
        yield from self._noted(branch.node)
        results = [self._nodes[each.name] for each in branch.output]
        self._nodes |= dict(zip(node.output, results, strict=False))
