"""oneDNN (DNNL): what it claims, and the code generator that runs it on CPUs."""

from annotated_region.backend import register_backend
from annotated_region.backends.dnnl import codegen, installation, patterns, rules

__all__ = ["codegen", "installation", "patterns", "rules"]

register_backend(rules.TARGET, unavailable=installation.unavailable, build_options=installation.build_options)
codegen.register_codegen()
