"""Allocation."""

from ...ir import Call, Expr

def alloc_tensor(
    shape: Expr, dtype: str | Expr, runtime_device_index: int | Expr, storage_scope: str | Expr = "global"
) -> Call: ...
