"""oneDNN (DNNL): what it claims, and the code generator that runs it on CPUs."""

from annotated_region.backend import register_backend
from annotated_region.backends.dnnl import codegen, library, patterns, rules

__all__ = ["codegen", "library", "patterns", "rules"]

register_backend(rules.TARGET, unavailable=library.unavailable, build_options=library.build_options)
codegen.register_codegen()
