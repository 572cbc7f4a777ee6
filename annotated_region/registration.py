"""What `import annotated_region` tells TVM: the errors, the annotation ops, and who makes code for targets.

All of it is small. Rules and patterns, which are not, are loaded when a target is first asked for.
"""

from annotated_region import tvm_adapter  # noqa: F401 - before the rooms, because it checks TVM's version

# isort: split
import annotated_region_tvm
from annotated_region import annotations, error_classes  # noqa: F401 - they register when they are imported

__all__: list[str] = []

# TVM calls this itself, unless its plugins are turned off.
annotated_region_tvm.register()
