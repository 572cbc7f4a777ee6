"""Views of memory."""

from collections.abc import Sequence

from ...ir import Call, Expr

def view(
    data: Expr,
    shape: Sequence[Expr | int] | Expr | None = None,
    dtype: Expr | None = None,
    relative_byte_offset: Expr | None = None,
) -> Call: ...
