"""ONNX Runtime: claims by what the emitter can say, and runs regions in sessions of its own."""

from annotated_region.backends.onnx_emitter import entry
from annotated_region.backends.onnxruntime import codegen, installation, kernel_times, patterns, rules
from annotated_region.targets.backend import register_backend

__all__ = ["codegen", "installation", "kernel_times", "patterns", "rules"]

register_backend(
    rules.TARGET,
    unavailable=installation.unavailable,
    build_options=entry.build_options,
    needs_python=True,
    package=installation.PACKAGE,
    recorded_steps=kernel_times.recorded_steps,
)
rules.register_rules()
patterns.register_patterns()
codegen.register_codegen()
