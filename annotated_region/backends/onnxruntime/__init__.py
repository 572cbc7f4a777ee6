"""ONNX Runtime: claims the ops that the ONNX emitter supports, and runs each region in a session."""

from annotated_region.backends.onnxruntime import codegen, installation, kernel_times, native, patterns, rules
from annotated_region.targets.backend import register_backend

__all__ = ["codegen", "installation", "kernel_times", "native", "patterns", "rules"]

register_backend(
    rules.TARGET,
    unavailable=installation.unavailable,
    build_options=native.build_options,
    needs_python=native.needs_python,
    package=installation.PACKAGE,
    recorded_steps=kernel_times.recorded_steps,
)
rules.register_rules()
patterns.register_patterns()
codegen.register_codegen()
