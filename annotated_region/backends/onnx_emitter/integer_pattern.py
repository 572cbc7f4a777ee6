"""Convolutions of bytes in int32: claimed with the ops that subtract the zero point, as ONNX requires."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.emission import extents_of, trial_of_match
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern
from annotated_region.tvm_adapter.types import expect

__all__ = ["register_integer_convolutions"]

_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")


def register_integer_convolutions(dialect: Dialect) -> None:
    """Register ``conv(subtract(astype(x), astype(zero)), kernel)`` as ``<target>.integer_convolution``."""

    def check(context: PatternCheckContext) -> bool | str:
        call = expect(relax.Call, context.matched_expr)
        view, zero = OpView.of(call), context.annotated_expr["zero"]
        if view is None or str(view.out_tensor.dtype) != "int32":
            return "the convolution is not one of int32"
        if extents_of(zero.ty) not in ((), (1,)):
            return "the zero point is not one number"
        inner = {var: value for var, value in context.matched_bindings.items() if not value.same_as(call)}
        return trial_of_match(view, inner, dialect) or True

    for pattern, zero in _patterns():
        name = f"{dialect.target}.integer_convolution"
        register_pattern(dialect.target, name, pattern, check, {"zero": zero})


def _patterns() -> Iterator[tuple[DFPattern, DFPattern]]:
    """Each form with its zero point, which is computed or constant."""
    for op in _CONVOLUTIONS:
        for zero in (is_op("relax.astype")(wildcard()), is_const()):
            data = is_op("relax.subtract")(is_op("relax.astype")(wildcard()), zero)
            yield is_op(op)(data, is_const()), zero
