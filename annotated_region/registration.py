"""Registers with TVM on `import annotated_region`: errors, annotation ops, types, code generator names.

Rules and patterns, which take longer to load, are loaded on the first query about a target.
"""

from annotated_region import tvm_adapter  # noqa: F401 - first, because it checks TVM's version

# isort: split
import annotated_region_tvm
from annotated_region import annotations, error_classes, op_types  # noqa: F401 - imported for their side effect
from annotated_region.recurrent_loops import op  # noqa: F401 - the same

__all__: list[str] = []

# TVM calls this itself as a plugin, unless plugins are disabled.
annotated_region_tvm.register()
