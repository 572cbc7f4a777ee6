"""TVM's importer of ONNX graphs, with a function that may convert a node before TVM's own table does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.ir import PrimType
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map, onnx_input

from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxGraphImporter", "StandardOp", "ops_of_tvm"]

StandardOp = Callable[[str, Sequence[relax.Expr | None], Mapping[str, object]], relax.Expr]
"""TVM's conversion of an op of the default domain: name, inputs, attributes as TVM parses them."""

Conversion = Callable[
    ["onnx.NodeProto", Sequence[relax.Expr | None], relax.BlockBuilder, StandardOp], relax.Expr | None
]
Origin = Callable[["onnx.NodeProto", object], None]


# The types of node to which TVM hands a shape as it is; it refuses to convert others that read one.
_SHAPE_OPS = "Cast CastLike Concat ConstantOfShape Equal Expand Gather Reshape Resize Shape Slice Squeeze"
_READERS_OF_SHAPES = frozenset([*_SHAPE_OPS.split(), "Where"])


def ops_of_tvm() -> frozenset[str]:
    """The types of node that TVM converts as the default domain defines them; its `Attention` is another."""
    return frozenset({*_get_convert_map(), "If"} - {"Attention"})


class OnnxGraphImporter(ONNXGraphImporter):
    """Imports one graph; does not change TVM's table of converters, so other threads are unaffected.

    TVM's loops pass neither the node nor the domain; they iterate over a graph that records the current node.

    Parameters
    ----------
    converted
        Converts a node; returns None to leave it to TVM.
    originated
        Called with each node and the expression or expressions that it was converted to.
    options
        The options of TVM's importer.
    """

    def __init__(self, converted: Conversion, originated: Origin, **options: object) -> None:
        sanitize = options.pop("sanitize_input_names", True)
        defaults = {"shape_dict": None, "dtype_dict": "float32", "sanitize": sanitize}
        super().__init__(**(defaults | options))  # type: ignore[arg-type]
        self._converted, self._originated = converted, originated
        self.node: onnx.NodeProto | None = None

    def _check_for_unsupported_ops(self, graph: object) -> None:
        """Does nothing: the model reader has checked them, by type and domain, also in branches."""

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        super()._construct_nodes(SimpleNamespace(node=self._noted(graph.node)))
        self._nodes |= {each.name: self._as_tensor(self._nodes[each.name]) for each in graph.output}

    def _convert_subgraph(self, bb: relax.BlockBuilder, graph: onnx.GraphProto) -> relax.Expr:
        parts = {"initializer": graph.initializer, "output": graph.output}
        return super()._convert_subgraph(bb, SimpleNamespace(node=self._noted(graph.node), **parts))

    def _noted(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            self.node = node
            shapes = {name: self._nodes[name] for name in node.input if self._is_shape_to_be_read(node, name)}
            self._nodes |= {name: self._read(shape) for name, shape in shapes.items()}
            yield node
            self._nodes |= shapes
            if node.op_type == "If":
                # TVM converts it in place.
                self._originated(node, [self._nodes[name] for name in node.output])
        self.node = None

    def _is_shape_to_be_read(self, node: onnx.NodeProto, name: str) -> bool:
        """Whether a node reads the numbers of a shape, which TVM takes as a tensor there."""
        expr = self._nodes.get(name)
        if not _is_shape(expr) or name in node.output:
            return False
        # Concat joins shapes with each other and with constants, but not with what is computed.
        others = [self._nodes.get(each) for each in node.input] if node.op_type == "Concat" else []
        computed = any(not _is_shape(each) and not isinstance(each, Constant) for each in others)
        return computed or node.op_type not in _READERS_OF_SHAPES

    def _as_tensor(self, result: relax.Expr) -> relax.Expr:
        """A result of the graph, which is a tensor also where TVM goes on with a shape or one extent."""
        if isinstance(getattr(result, "ty", None), PrimType):
            return self.bb.emit(relax.op.squeeze(self._read(relax.ShapeExpr([result])), [0]))
        return self._read(result) if _is_shape(result) else result

    def _read(self, shape: relax.Expr) -> relax.Expr:
        if isinstance(shape, relax.ShapeExpr) and all(isinstance(each, tirx.IntImm) for each in shape.values):
            return relax.const([int(expect(tirx.IntImm, each)) for each in shape.values], "int64")
        return self.bb.emit(relax.op.shape_to_tensor(shape))

    def _parse_attr(self, attr_proto: Iterable[onnx.AttributeProto]) -> dict[str, object]:  # type: ignore[override]
        """The attributes of a node of TVM's; other conversions read the node itself."""
        assert self.node is not None
        known = self.node.domain in ("", "ai.onnx") and self.node.op_type in ops_of_tvm()
        return super()._parse_attr(attr_proto if known else ())

    def _convert_operator(
        self, op_name: str, inputs: Sequence[relax.Expr | None], attrs: dict[str, object], opset: int
    ) -> relax.Expr:
        node = self.node
        assert node is not None
        found = self._converted(node, inputs, self.bb, self._standard)
        expr = (
            super()._convert_operator(op_name, inputs, attrs, opset)
            if found is None
            else self.bb.normalize(found)
        )
        self._originated(node, expr)
        return expr

    def _standard(
        self, op: str, inputs: Sequence[relax.Expr | None], attributes: Mapping[str, object]
    ) -> relax.Expr:
        return super()._convert_operator(op, onnx_input(inputs), dict(attributes), self.opset)


def _is_shape(expr: relax.Expr | None) -> bool:
    return isinstance(expr, relax.Expr) and isinstance(expr.ty, relax.ShapeType)
