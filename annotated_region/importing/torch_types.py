"""Half precision products with the type of their operands, as in PyTorch.

TVM 0.27's importer of PyTorch programs sets the result type of every convolution and linear layer to float32.
For half precision this differs from PyTorch, and the following bias has another type.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.tvm_adapter.ops import changed_attributes

__all__ = ["keep_half_types", "of_operand_type"]

_HALVES = ("float16", "bfloat16")


def keep_half_types(builder: relax.BlockBuilder) -> None:
    """Make a builder apply `of_operand_type` to each emitted expression."""
    emit = builder.emit

    def emit_as_pytorch(expr: relax.Expr, name_hint: str = "") -> relax.Var:
        return emit(of_operand_type(expr), name_hint)

    # The importer owns this builder, so the patch ends with the import.
    builder.emit = emit_as_pytorch  # type: ignore[method-assign]


def of_operand_type(expr: relax.Expr) -> relax.Expr:
    """The same call with the data type of its operands as result type, if that is a half precision type.

    Other expressions are returned unchanged.
    """
    if not isinstance(expr, relax.Call) or getattr(expr.attrs, "out_dtype", None) is None:
        return expr
    dtypes = {str(arg.ty.dtype) for arg in expr.args if isinstance(arg.ty, relax.TensorType)}
    if len(dtypes) != 1 or not dtypes <= set(_HALVES):
        return expr
    assert expr.attrs is not None
    return relax.Call(expr.op, list(expr.args), changed_attributes(expr.attrs, out_dtype=dtypes.pop()))
