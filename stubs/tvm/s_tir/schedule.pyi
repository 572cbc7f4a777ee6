"""Blocks and loops as schedules name them."""

from tvm_ffi import Object

class SBlockRV(Object): ...
