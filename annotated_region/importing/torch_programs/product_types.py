"""Products with the type of their operands, as in PyTorch.

TVM 0.27's importer of PyTorch programs sets the result type of every convolution and matrix product to
float32. PyTorch keeps the type of the operands: float32 rounds products of float64 and of large integers,
does not wrap around as int8 does, and a following bias has another type.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.tvm_adapter.ops import changed_attributes

__all__ = ["keep_operand_types", "of_operand_type"]


def keep_operand_types(builder: relax.BlockBuilder) -> None:
    """Make a builder apply `of_operand_type` to each emitted expression."""
    emit = builder.emit

    def emit_as_pytorch(expr: relax.Expr, name_hint: str = "") -> relax.Var:
        return emit(of_operand_type(expr), name_hint)

    # The importer owns this builder, so the patch ends with the import.
    builder.emit = emit_as_pytorch  # type: ignore[method-assign]


def of_operand_type(expr: relax.Expr) -> relax.Expr:
    """The same call with the data type of its operands as result type, if the importer set float32.

    Other expressions, and operands of several types, are returned unchanged.
    """
    if not isinstance(expr, relax.Call) or str(getattr(expr.attrs, "out_dtype", None)) != "float32":
        return expr
    dtypes = {str(arg.ty.dtype) for arg in expr.args if isinstance(arg.ty, relax.TensorType)}
    if len(dtypes) != 1 or dtypes == {"float32"}:
        return expr
    assert expr.attrs is not None
    return relax.Call(expr.op, list(expr.args), changed_attributes(expr.attrs, out_dtype=dtypes.pop()))
