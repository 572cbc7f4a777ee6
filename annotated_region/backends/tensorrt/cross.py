"""Builds modules with TensorRT regions on machines that cannot run them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from annotated_region.backend import backend_of, register_backend
from annotated_region.backends.tensorrt.rules import TARGET
from annotated_region.executable import LinkedExecutable
from annotated_region.passes.build import build

__all__ = ["cross_build"]


def cross_build(
    mod: tvm.IRModule,
    target: str | tvm.target.Target = "llvm",
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> LinkedExecutable:
    """Build as `annotated_region.build` does, also where TensorRT or a GPU is missing.

    The library that comes out holds the ONNX models of the regions. It runs where TensorRT is; here its
    regions raise `BackendUnavailableError`, unless the option ``fallback`` names what runs them instead.
    Other targets of the module have to be on this machine. Not to be called by several threads at once.

    Parameters are those of `annotated_region.build`.
    """
    described = backend_of(TARGET)
    register_backend(described, unavailable=lambda: None)
    try:
        return build(mod, target, options)
    finally:
        register_backend(described)
