"""oneDNN (DNNL): what it claims, and the code generator that runs it on CPUs."""

from annotated_region.backends.dnnl import (
    codegen,
    installation,
    normalization_rules,
    patterns,
    quantization_rules,
    registration,
    rules,
    shape_rules,
)
from annotated_region.targets.backend import register_backend

__all__ = [
    "codegen",
    "installation",
    "normalization_rules",
    "patterns",
    "quantization_rules",
    "registration",
    "rules",
    "shape_rules",
]

register_backend(
    registration.TARGET, unavailable=installation.unavailable, build_options=installation.build_options
)
codegen.register_codegen()
