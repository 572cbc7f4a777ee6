"""The importer of ONNX."""

from collections.abc import Mapping, Sequence

from ....ir import IRModule

def from_onnx(
    model: object,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule: ...
