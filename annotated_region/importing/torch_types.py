"""Products of half precision that have the type of their operands, as PyTorch's have.

TVM 0.27's importer of PyTorch programs asks every convolution and every linear layer for float32. Of half
precision that is another type than PyTorch's, and the bias behind it does not fit.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.tvm_adapter.ops import changed_attributes

__all__ = ["keep_half_types", "of_operand_type"]

_HALVES = ("float16", "bfloat16")


def keep_half_types(builder: relax.BlockBuilder) -> None:
    """Let a builder emit `of_operand_type` of each expression from here on."""
    emit = builder.emit

    def emit_as_pytorch(expr: relax.Expr, name_hint: str = "") -> relax.Var:
        return emit(of_operand_type(expr), name_hint)

    # The builder is the importer's own, and is dropped with it.
    builder.emit = emit_as_pytorch  # type: ignore[method-assign]


def of_operand_type(expr: relax.Expr) -> relax.Expr:
    """The same call with a result of the type of its operands, if that is one of half precision.

    Other expressions come back as they are.
    """
    if not isinstance(expr, relax.Call) or getattr(expr.attrs, "out_dtype", None) is None:
        return expr
    dtypes = {str(arg.ty.dtype) for arg in expr.args if isinstance(arg.ty, relax.TensorType)}
    if len(dtypes) != 1 or not dtypes <= set(_HALVES):
        return expr
    assert expr.attrs is not None
    return relax.Call(expr.op, list(expr.args), changed_attributes(expr.attrs, out_dtype=dtypes.pop()))
