"""Errors keep their class when they cross TVM: at import, it is told the classes of this package.

This stands apart from the errors themselves so that rooms without TVM can raise them.
"""

from __future__ import annotations

import tvm_ffi

from annotated_region import errors

__all__: list[str] = []

# An error raised inside a pass crosses TVM's C++ pass manager, which keeps the class of those it knows.
for _name in errors.__all__:
    tvm_ffi.register_error(_name, getattr(errors, _name))
# So does what interrupts Python itself: a Ctrl-C inside a pass would arrive as an empty RuntimeError.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
tvm_ffi.register_error("MemoryError", MemoryError)
