"""The code generators that TVM may be built with, and the regions that they accept."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from annotated_region.targets.backend import Backend

__all__ = ["TVM_GENERATORS"]

TVM_GENERATORS: Mapping[str, Backend] = MappingProxyType(
    {
        backend.name: backend
        for backend in (
            Backend("clml"),
            Backend("coreml"),
            Backend("cublas", bind_constants=False, regions="one composite"),
            Backend("cudnn", bind_constants=False, regions="one composite"),
            Backend("cutlass", bind_constants=False, regions="one composite"),
            Backend("example_npu", bind_constants=False),
            Backend("hipblas", bind_constants=False, regions="one composite"),
            Backend("nnapi", bind_constants=False),
        )
    }
)
"""The descriptions match what TVM's own ``partition_for_...`` functions and the READMEs beside its tables
pass to each generator.

`register_patterns` registers them for targets of these names that have no description yet.
"""
