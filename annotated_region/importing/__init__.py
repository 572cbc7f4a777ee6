"""Reads models: ONNX and TVMScript files, also of strangers, also in a process of its own."""

from annotated_region.importing.limits import Limits
from annotated_region.importing.onnx_models import from_onnx

__all__ = ["Limits", "from_onnx"]
