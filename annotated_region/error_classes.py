"""Registers the error classes of this package with TVM, so that they keep their class across its FFI.

Separate from `errors`, so that rooms without TVM can raise them.
"""

from __future__ import annotations

import tvm_ffi

from annotated_region import errors

__all__: list[str] = []

# An error raised inside a pass crosses TVM's C++ pass manager, which preserves only registered classes.
for _name in errors.__all__:
    tvm_ffi.register_error(_name, getattr(errors, _name))
# The same holds for KeyboardInterrupt: a Ctrl-C inside a pass would surface as an empty RuntimeError.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
tvm_ffi.register_error("MemoryError", MemoryError)
