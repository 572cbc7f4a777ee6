"""Plugin for TVM: ``import tvm`` alone finds the code generators, and compiles a module that is partitioned.

TVM calls `register` at the end of its own import, through the entry point group ``tvm.backends``;
``TVM_DEVICE_BACKEND_AUTOLOAD=0`` turns that off. It is a module of its own, outside of the package, because
nothing of annotated-region may be imported before something asks for a target, and because ``import
annotated_region`` imports TVM, which calls this in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import tvm_ffi

__all__ = ["REGISTERED", "register"]

TARGETS = ("dnnl", "onnxruntime", "openvino", "tensorrt")
RUNTIMES = ("onnxruntime", "openvino", "tensorrt")
REGISTERED: dict[str, None] = {}
"""The targets whose generator comes from here, because TVM has none of its own."""


def register() -> None:
    """Register ``relax.ext.<target>`` for each target that comes with annotated-region, and the runtimes.

    A generator that TVM was built with stays what it is. Regions of the targets in `RUNTIMES` run in Python:
    the libraries that hold them ask for ``annotated_region.<target>.open``.
    """
    for target in TARGETS:
        name = f"relax.ext.{target}"
        if tvm_ffi.get_global_func(name, allow_missing=True) is None:
            tvm_ffi.register_global_func(name, _generator(target))
            REGISTERED[target] = None
    for target in RUNTIMES:
        tvm_ffi.register_global_func(f"annotated_region.{target}.open", _opener(target), override=True)


def _generator(target: str) -> Callable[..., object]:
    def generate(functions: object, options: object, constant_names: object) -> object:
        codegen = import_module(f"annotated_region.backends.{target}.codegen")
        return codegen.generate(functions, options, constant_names)

    return generate


def _opener(target: str) -> Callable[..., object]:
    def open_region(*description: object) -> object:
        import_module(f"annotated_region.backends.{target}")  # replaces this function
        return tvm_ffi.get_global_func(f"annotated_region.{target}.open")(*description)

    return open_region
