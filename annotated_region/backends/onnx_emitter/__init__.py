"""The ONNX emitter, shared by all targets that read ONNX: converters, the walk over a function, the model."""

from annotated_region.backends.onnx_emitter import conversions
from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.emission import Emission, emit_alone, extents_of, trial
from annotated_region.backends.onnx_emitter.integer_pattern import register_integer_convolutions
from annotated_region.backends.onnx_emitter.model import EmittedModel, emit, emit_all, missing_onnx
from annotated_region.backends.onnx_emitter.recurrent_pattern import register_recurrent_layers
from annotated_region.backends.onnx_emitter.registry import converted_ops, converter
from annotated_region.backends.onnx_emitter.shape_pattern import register_shape_pattern
from annotated_region.targets.translation import Declined, require

__all__ = [
    "Declined",
    "Dialect",
    "EmittedModel",
    "Emission",
    "conversions",
    "converted_ops",
    "converter",
    "emit",
    "emit_all",
    "emit_alone",
    "extents_of",
    "missing_onnx",
    "register_integer_convolutions",
    "register_recurrent_layers",
    "register_shape_pattern",
    "require",
    "trial",
]
