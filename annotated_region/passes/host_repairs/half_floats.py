"""Computes ops of bfloat16 and float16 in float32 that TVM cannot compile, or computes wrongly.

::

    lv2 = layer_norm(lv1, g, b)  of bfloat16        lv2_wide  = astype(lv1, "float32"), ...
                                            =>      lv2_wide4 = layer_norm(lv2_wide, ...)
                                                    lv2       = astype(lv2_wide4, "bfloat16")

TVM 0.27.0:

*   ``isnan``, ``isinf``, ``isfinite`` of bfloat16: "Data type T.bfloat16 not supported";
*   ``layer_norm`` and ``instance_norm`` of bfloat16: "only support float32 and float16 for now";
*   ``argmax`` and ``argmin`` of bfloat16: an internal check fails; ``power`` and ``mod`` of it likewise;
*   ``sort``, ``argsort``, ``topk`` and ``median`` of bfloat16 order the bits as integers, which is wrong;
*   ``sinh``, ``cosh``, ``asin``, ``acos``, ``atan``, ``asinh``, ``acosh`` and ``atan2`` of float16:
    "unknown intrinsic";
*   ``tanh``, ``gelu``, ``softplus`` and others round each step: of ``gelu(-3)`` in float16, 8 of 100 are
    lost, and ``atanh(0.0001)`` is 0;
*   sums, products and averages round each partial sum: of 4 096 ones in float16 the sum is 2 048, in bfloat16
    it is 256; so do ``softmax`` and attention;
*   ``grid_sample`` returns float32.

float32 represents all numbers of both types, so predicates and orders are the same; computed values are
rounded once, at the end. The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_half_floats.py`` passes without it.
"""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.ops import changed_attributes

__all__ = ["REWRITES"]

_HALVES = ("float16", "bfloat16")
_ASKED = tuple(f"relax.{name}" for name in ("isnan", "isinf", "isfinite", "argmax", "argmin", "argsort"))
_COMPUTED = tuple(f"relax.{name}" for name in ("nn.layer_norm", "nn.instance_norm", "power", "mod", "sort"))
_FUNCTIONS = tuple(
    f"relax.{name}" for name in ("sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")
)
_OF_STEPS = tuple(
    f"relax.{name}"
    for name in ("tanh", "tan", "sigmoid", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.selu", "nn.softplus")
)
_SUMS = tuple(
    f"relax.{name}"
    for name in (
        "sum", "mean", "prod", "variance", "std", "cumsum", "cumprod", "matmul", "einsum", "nn.softmax",
        "nn.log_softmax", "nn.attention", "nn.attention_bias", "nn.conv1d", "nn.conv2d", "nn.conv3d",
        "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.avg_pool1d", "nn.avg_pool2d",
        "nn.avg_pool3d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d",
        "image.grid_sample",
    )
)  # fmt: skip
_TYPES = ("out_dtype", "dtype")
"""The attributes that name the type of a result."""


def ask_in_float32(view: OpView, editor: Editor) -> relax.Expr | None:
    """A predicate of bfloat16, computed on the same numbers in float32."""
    if dtype_of(view.arg_types[0]) != "bfloat16":
        return None
    return relax.Call(view.call.op, _widened(view, editor), view.call.attrs)


def compute_in_float32(view: OpView, editor: Editor) -> relax.Expr | None:
    """An op of bfloat16, computed in float32 and rounded once."""
    return _computed(view, editor) if dtype_of(view.out_type) == "bfloat16" else None


def function_in_float32(view: OpView, editor: Editor) -> relax.Expr | None:
    """A function of float16, computed in float32 and rounded once."""
    return _computed(view, editor) if dtype_of(view.out_type) == "float16" else None


def steps_in_float32(view: OpView, editor: Editor) -> relax.Expr | None:
    """A function of several steps, or a sum, computed in float32 and rounded once."""
    return _computed(view, editor) if dtype_of(view.out_type) in _HALVES else None


def order_in_float32(view: OpView, editor: Editor) -> relax.Expr | None:
    """What the order of float32 selects, and where it is."""
    if dtype_of(view.arg_types[0]) != "bfloat16":
        return None
    found = editor.emit(relax.Call(view.call.op, _widened(view, editor), view.call.attrs), "wide")
    if not isinstance(view.out_type, tvm.ir.TupleType):
        return _narrow(found, view.out_type)
    fields = [
        editor.emit(_narrow(editor.emit(relax.TupleGetItem(found, place), "wide"), type_), "narrow")
        for place, type_ in enumerate(view.out_type.fields)
    ]
    return relax.Tuple(fields)


def _narrow(found: relax.Var, type_: tvm.ir.Type) -> relax.Expr:
    return relax.op.astype(found, "bfloat16") if dtype_of(type_) == "bfloat16" else found


def _computed(view: OpView, editor: Editor) -> relax.Expr:
    whole = editor.emit(relax.Call(view.call.op, _widened(view, editor), _wide_attributes(view)), "wide")
    return relax.op.astype(whole, str(view.out_tensor.dtype))


def _wide_attributes(view: OpView) -> tvm.ir.Attrs | None:
    """The attributes, with float32 as the type of the result where they name one of half precision."""
    named = [name for name in _TYPES if str(view.attrs.get(name)) in _HALVES]
    if not named or view.call.attrs is None:
        return view.call.attrs
    return changed_attributes(view.call.attrs, **dict.fromkeys(named, "float32"))


def _widened(view: OpView, editor: Editor) -> list[relax.Expr]:
    """The operands, with those of half precision converted to float32."""
    return [_wide(arg, editor) for arg in view.args]


def _wide(arg: relax.Expr, editor: Editor) -> relax.Expr:
    listed = editor.value_of(arg)
    if isinstance(listed, relax.Tuple):
        return relax.Tuple([_wide(each, editor) for each in listed.fields])
    return editor.emit(relax.op.astype(arg, "float32"), "wide") if dtype_of(arg.ty) in _HALVES else arg


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (_ASKED, ask_in_float32),
    (_COMPUTED, compute_in_float32),
    (_FUNCTIONS, function_in_float32),
    (_OF_STEPS + _SUMS, steps_in_float32),
    (("relax.topk", "relax.median"), order_in_float32),
]
