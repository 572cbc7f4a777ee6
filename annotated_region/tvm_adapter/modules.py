"""Runtime modules of C++ text, and the C++ compiler that TVM would call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm.support import cc

import annotated_region_tvm

__all__ = ["allow_freeing", "compiler_triple", "cpp_module", "register_generator"]


def cpp_module(text: str, symbols: Sequence[str], constants: Sequence[str] = ()) -> tvm.runtime.Module:
    """C++ text as a runtime module, which is compiled when TVM exports or links what imports it.

    Parameters
    ----------
    text
        One translation unit.
    symbols
        The functions that it defines.
    constants
        The names of the constants that TVM passes when it loads the first of them.
    """
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    module: tvm.runtime.Module = create(text, "cc", list(symbols), list(constants))
    return module


def allow_freeing(module: tvm.runtime.Module) -> None:
    """Free a loaded module with its last reference; TVM holds each one until the process ends."""
    tvm_ffi.get_global_func("ffi.ModuleGlobalsRemove")(module)


def compiler_triple() -> str | None:
    """The target triple of the C++ compiler; None if it is unknown."""
    triple: str | None = cc.create_shared.get_target_triple()
    return triple


def register_generator(target: str, generate: Callable[..., object]) -> bool:
    """Register ``relax.ext.<target>`` unless TVM has its own; whether `generate` or the plugin has it."""
    if target in annotated_region_tvm.REGISTERED:
        return True
    if tvm.get_global_func(f"relax.ext.{target}", allow_missing=True) is not None:
        return False
    tvm_ffi.register_global_func(f"relax.ext.{target}", generate)
    return True
