"""OpenVINO: claims the ops that its CPU plugin computes as ONNX defines them, and runs compiled models."""

from annotated_region.backends.openvino import codegen, installation, native, patterns, precisions, rules
from annotated_region.targets.backend import register_backend

__all__ = ["codegen", "installation", "native", "patterns", "precisions", "rules"]

register_backend(
    rules.TARGET,
    unavailable=installation.unavailable,
    build_options=native.build_options,
    needs_python=native.needs_python,
    remarks=precisions.remarks,
    package=installation.PACKAGE,
)
rules.register_rules()
patterns.register_patterns()
codegen.register_codegen()
