"""TensorRT: claims by its documented support; regions are stored as ONNX, engines are built at run time."""

from annotated_region.backends.onnx_emitter import native_runtime
from annotated_region.backends.tensorrt import codegen, installation, rules
from annotated_region.targets.backend import register_backend

__all__ = ["codegen", "installation", "rules"]

register_backend(
    rules.TARGET,
    unavailable=installation.unavailable,
    build_options=native_runtime.build_options,
    builds_anywhere=True,
    needs_python=installation.needs_python,
    package=installation.PACKAGE,
)
codegen.register_codegen()
