"""The parts of the importer of ONNX."""

from collections.abc import Mapping, Sequence

from ....ir import Expr, IRModule
from ....runtime import Tensor
from ...block_builder import BlockBuilder

class onnx_input(list[Expr | None]): ...  # noqa: N801 - TVM's name

def _get_convert_map() -> dict[str, object]: ...

class ONNXGraphImporter:
    bb: BlockBuilder
    opset: int
    _nodes: dict[str, Expr]
    _inputs: dict[str, Expr]
    def __init__(
        self,
        shape_dict: Mapping[str, Sequence[int]] | None,
        dtype_dict: str | Mapping[str, str] | None,
        keep_params_in_input: bool = False,
        sanitize: bool = True,
    ) -> None: ...
    def from_onnx(self, graph: object, opset: int) -> IRModule: ...
    def _check_for_unsupported_ops(self, graph: object) -> None: ...
    def _construct_nodes(self, graph: object) -> None: ...
    def _convert_subgraph(self, bb: BlockBuilder, graph: object) -> Expr: ...
    def _parse_array(self, tensor_proto: object) -> Tensor: ...
    def _parse_attr(self, attr_proto: object) -> dict[str, object]: ...
    def _convert_operator(
        self, op_name: str, inputs: Sequence[Expr | None], attrs: dict[str, object], opset: int
    ) -> Expr: ...
