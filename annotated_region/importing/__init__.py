"""Reads models: ONNX and TVMScript files, also of strangers, also in a process of its own."""

from annotated_region.importing.limits import Limits
from annotated_region.importing.onnx_models import from_onnx
from annotated_region.importing.torch_programs import from_exported_program

__all__ = ["Limits", "from_exported_program", "from_onnx"]
