"""TVM's importer of ONNX graphs, which takes branches that are known and knows what is known at entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tvm import relax, tirx

from annotated_region.functions.shape_variables import variables_in
from annotated_region.importing.nested_builder import branch_of
from annotated_region.importing.onnx_models.chosen_extents import chosen_type
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.onnx_importer import OnnxGraphImporter
from annotated_region.tvm_adapter.types import expect, shape_vars_of

if TYPE_CHECKING:
    import onnx

__all__ = ["BranchingImporter"]

_BRANCHES = ("then_branch", "else_branch")


class BranchingImporter(OnnxGraphImporter):
    """An importer that converts an `If` of a constant, or of an extent, as the branch that is taken."""

    _is_in_branch = False

    def is_known_at_entry(self, number: relax.Expr | int) -> bool:
        """Whether every call of the function computes a number from the extents of its inputs alone.

        What a branch of an `If` needs, calls that take the other branch need not fulfil.
        """
        inputs = [each for each in self._inputs.values() if isinstance(each, relax.Var)]
        known = {extent for each in inputs for extent in shape_vars_of(each.ty)}
        return not self._is_in_branch and known.issuperset(variables_in(number))

    def _convert_subgraph(self, bb: relax.BlockBuilder, graph: onnx.GraphProto) -> relax.Expr:
        """A branch with its bindings, which TVM emits before the `If`, so that each call computes them."""
        before, outer = self._is_in_branch, self.bb

        def converted(builder: relax.BlockBuilder) -> relax.Expr:
            self._is_in_branch, self.bb = True, builder
            return super(BranchingImporter, self)._convert_subgraph(builder, graph)

        result = branch_of(bb, self._shape_variables(), converted)
        self._is_in_branch, self.bb = before, outer
        return result

    def _shape_variables(self) -> list[tirx.Var]:
        """The variables of extents that are known so far."""
        types = (each.ty for each in self._nodes.values())
        return list(dict.fromkeys(variable for ty in types for variable in shape_vars_of(ty)))

    def _noted(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            branch = self._branch_taken(node)
            known = frozenset(self._shape_variables() if node.op_type == "If" else ())
            yield from super()._noted([node]) if branch is None else self._inlined(node, branch)
            if node.op_type == "If" and branch is None:
                self._name_extents(node, known)

    def _name_extents(self, node: onnx.NodeProto, known: frozenset[tirx.Var]) -> None:
        """Give the results of an `If` extents that are not those of both branches."""
        for place, name in enumerate(node.output):
            chosen = expect(relax.Var, self._nodes[name])
            whole = self.bb.lookup_binding(chosen)
            if isinstance(whole, relax.TupleGetItem):
                whole = self.bb.lookup_binding(expect(relax.Var, whole.tuple_value))
            ty = chosen_type(expect(relax.If, whole), place, known)
            if ty is not None:
                self._nodes[name] = self.bb.match_cast(chosen, ty)
                self._originated(node, [self._nodes[name]])

    def _branch_taken(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch of an `If` whose condition is a constant, or asks whether an extent is 1."""
        if node.op_type != "If":
            return None
        branches = {each.name: each.g for each in node.attribute if each.name in _BRANCHES}
        condition = self._nodes.get(node.input[0])
        if isinstance(condition, Constant) and condition.value.numpy().size == 1:
            return branches["then_branch" if condition.value.numpy().item() else "else_branch"]
        if len(node.attribute) != len(branches):
            return None
        then_branch, else_branch = (branches[name] for name in _BRANCHES)
        return then_branch if self._squeezes(then_branch, else_branch) else None

    def _squeezes(self, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> bool:
        """Whether an `If` is what PyTorch exports of ``x.squeeze(axis)``.

        Its branches have results of different ranks, of which a function of Relax has one. What reads the
        result expects the squeezed one, so that calls with other extents are errors; each call is checked.
        """
        squeezed, same = _only_of("Squeeze", then_branch), _only_of("Identity", else_branch)
        if squeezed is None or same is None or squeezed.input[0] != same.input[0]:
            return False
        data, axes = self._nodes.get(squeezed.input[0]), self._axes_of(squeezed, then_branch)
        shape = getattr(getattr(data, "ty", None), "shape", None)
        if not isinstance(shape, relax.ShapeExpr) or not axes:
            return False
        return all(-len(shape) <= axis < len(shape) for axis in axes)

    def _axes_of(self, squeeze: onnx.NodeProto, branch: onnx.GraphProto) -> Sequence[int]:
        """The axes that a node of a branch squeezes, if they are constants of this branch; else none."""
        for each in squeeze.attribute:
            if each.name == "axes":
                return list(each.ints)
        if len(squeeze.input) < 2:
            return []
        tensors = {each.name: each for each in branch.initializer}
        for node in branch.node:
            for each in node.attribute if squeeze.input[1] in node.output else ():
                if each.name == "value_ints":
                    return list(each.ints)
                if each.name == "value":
                    tensors[node.output[0]] = each.t
        given = tensors.get(squeeze.input[1])
        axes = None if given is None else self._parse_array(given).numpy()
        return [] if axes is None or axes.dtype != "int64" else axes.ravel().tolist()

    def _inlined(self, node: onnx.NodeProto, branch: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """The nodes of a branch; its results are those of the `If`. ONNX's names of values are unique."""
        self._nodes |= {each.name: relax.const(self._parse_array(each)) for each in branch.initializer}
        yield from self._noted(branch.node)
        results = [self._nodes[each.name] for each in branch.output]
        self._nodes |= dict(zip(node.output, results, strict=False))


def _only_of(kind: str, branch: onnx.GraphProto) -> onnx.NodeProto | None:
    """The node of a branch that has one beside constants, if it is of this kind and the result."""
    nodes = [each for each in branch.node if each.op_type != "Constant"]
    is_only = len(nodes) == 1 and nodes[0].op_type == kind and len(branch.output) == 1
    return nodes[0] if is_only and nodes[0].output[0] == branch.output[0].name else None
