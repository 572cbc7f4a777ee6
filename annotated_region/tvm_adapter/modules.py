"""Runtime modules of C++ text, and the C++ compiler that TVM would call."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm.support import cc

__all__ = ["compiler_triple", "cpp_module"]


def cpp_module(text: str, symbols: Sequence[str], constants: Sequence[str] = ()) -> tvm.runtime.Module:
    """C++ text as a runtime module, which is compiled when TVM exports or links what imports it.

    Parameters
    ----------
    text
        One translation unit.
    symbols
        The functions that it defines.
    constants
        The names of the constants that TVM hands over when it loads the first of them.
    """
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    return create(text, "cc", list(symbols), list(constants))


def compiler_triple() -> str | None:
    """The machine that the C++ compiler makes code for; None if it does not say."""
    triple: str | None = cc.create_shared.get_target_triple()
    return triple
