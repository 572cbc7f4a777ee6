"""The shape of a tensor as a tensor: two ops claimed together, because regions cannot return shapes."""

from __future__ import annotations

from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.emission import trial
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern

__all__ = ["register_shape_pattern"]


def register_shape_pattern(dialect: Dialect) -> None:
    """Register ``shape_to_tensor(shape_of(x))`` as the composite ``<target>.shape``."""
    shape = is_op("relax.shape_of")(wildcard())

    def check(context: PatternCheckContext) -> bool | str:
        view = OpView.of(context.annotated_expr["shape"])
        return "no op" if view is None else trial(view, dialect) or True

    pattern = is_op("relax.shape_to_tensor")(shape)
    register_pattern(dialect.target, f"{dialect.target}.shape", pattern, check, {"shape": shape})
