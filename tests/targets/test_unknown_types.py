"""Rules answer calls of which a type or a shape is unknown, and calls in blocked layouts; none fails."""

from collections.abc import Iterator

import pytest
import tvm
from kits.dense_graphs.relax_graph import module_of
from kits.hunt.engines import recipe_of
from tvm import relax

from annotated_region.targets.asking import refusal_by_rule
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import set_type

TARGETS = ("dnnl", "onnxruntime", "openvino", "tensorrt")


def less_known(ty: tvm.ir.Type) -> Iterator[tvm.ir.Type]:
    """Types of which less is known; the first one lacks the extents only."""
    if isinstance(ty, relax.TensorType):
        yield relax.TensorType(dtype=ty.dtype, ndim=ty.ndim)
        yield relax.TensorType(dtype=ty.dtype)
        yield relax.TensorType(dtype=None, ndim=ty.ndim)
        yield relax.TensorType(dtype=None)
        yield relax.AnyType()
    elif isinstance(ty, tvm.ir.TupleType):
        yield tvm.ir.TupleType([next(less_known(field), field) for field in ty.fields])
    elif isinstance(ty, relax.ShapeType):
        yield relax.ShapeType(ndim=ty.ndim)
        yield relax.ShapeType()


def retyped(call: relax.Call, arguments: list[relax.Expr], ty: tvm.ir.Type) -> OpView:
    changed = relax.Call(call.op, arguments, call.attrs)
    set_type(changed, ty)
    view = OpView.of(changed)
    assert view is not None
    return view


def variants(call: relax.Call) -> Iterator[OpView]:
    for position, argument in enumerate(call.args):
        for ty in less_known(argument.ty):
            others = [*call.args[:position], relax.Var("v", ty), *call.args[position + 1 :]]
            yield retyped(call, others, call.ty)
    unknown = [relax.Var("v", next(less_known(each.ty), each.ty)) for each in call.args]
    for ty in less_known(call.ty):
        yield retyped(call, list(call.args), ty)
        yield retyped(call, unknown, ty)


def calls_in(origin: str, seeds: range) -> Iterator[relax.Call]:
    for seed in seeds:
        for function in module_of(recipe_of(origin, seed)).functions.values():
            if isinstance(function, relax.Function):
                for block in function.body.blocks:
                    yield from (each.value for each in block.bindings if OpView.of(each.value) is not None)


@pytest.mark.parametrize("origin", ["dnnl", "onnxruntime"])
def test_no_rule_fails_where_less_is_known(origin):
    asked: set[str] = set()
    for call in calls_in(origin, range(60)):
        if call.op.name in asked:
            continue
        asked.add(call.op.name)
        for view in variants(call):
            for target in TARGETS:
                refusal_by_rule(target, view, lambda name=view.name: name)
    assert len(asked) > 80


IMAGE = relax.Var("x", relax.TensorType((1, 3, 8, 8), "float32"))
VOLUME = relax.Var("x", relax.TensorType((1, 3, 8, 8, 8), "float32"))
LINE = relax.Var("x", relax.TensorType((1, 3, 8), "float32"))


@pytest.mark.parametrize(
    "call",
    [
        relax.op.nn.adaptive_avg_pool1d(LINE, 4),
        relax.op.nn.adaptive_avg_pool2d(IMAGE, (4, 4)),
        relax.op.nn.adaptive_avg_pool3d(VOLUME, (4, 4, 4)),
        relax.op.image.resize2d(IMAGE, (16, 16), method="nearest_neighbor"),
        relax.op.image.resize2d(IMAGE, (16, 16)),
        relax.op.image.resize3d(VOLUME, (16, 16, 16)),
    ],
    ids=lambda call: call.op.name,
)
def test_an_op_with_several_conversions_is_declined_for_what_is_unknown(call):
    builder = relax.BlockBuilder()
    with builder.function("main", [call.args[0]]):
        normalized = builder.normalize(call)
        builder.emit_func_output(normalized)
    for view in variants(normalized):
        if isinstance(view.out_type, relax.TensorType) and view.out_type.shape is not None:
            continue
        for target in TARGETS:
            assert refusal_by_rule(target, view, lambda name=view.name: name) is not None


BLOCKED_LINE = relax.Var("x", relax.TensorType((1, 2, 8, 4), "float32"))
BLOCKED_IMAGE = relax.Var("x", relax.TensorType((1, 2, 8, 8, 4), "float32"))
BLOCKED_VOLUME = relax.Var("x", relax.TensorType((1, 2, 8, 8, 8, 4), "float32"))
WIDE_IMAGE = relax.Var("x", relax.TensorType((1, 8, 8, 8), "float32"))
KERNEL = relax.Var("w", relax.TensorType((8, 8, 3, 3), "float32"))
BLOCKED_KERNEL = relax.Var("w", relax.TensorType((2, 2, 3, 3, 4, 4), "float32"))
BLOCKED = {
    "adaptive 1": relax.op.nn.adaptive_avg_pool1d(BLOCKED_LINE, 4, layout="NCW4c"),
    "adaptive 2": relax.op.nn.adaptive_avg_pool2d(BLOCKED_IMAGE, (2, 2), layout="NCHW4c"),
    "adaptive 3": relax.op.nn.adaptive_avg_pool3d(BLOCKED_VOLUME, (4, 4, 4), layout="NCDHW4c"),
    "adaptive result": relax.op.nn.adaptive_avg_pool2d(WIDE_IMAGE, (2, 2), out_layout="NCHW4c"),
    "max": relax.op.nn.max_pool2d(BLOCKED_IMAGE, (2, 2), layout="NCHW4c"),
    "max result": relax.op.nn.max_pool2d(WIDE_IMAGE, (2, 2), out_layout="NCHW4c"),
    "average": relax.op.nn.avg_pool2d(BLOCKED_IMAGE, (2, 2), layout="NCHW4c"),
    "convolution": relax.op.nn.conv2d(
        BLOCKED_IMAGE, BLOCKED_KERNEL, data_layout="NCHW4c", kernel_layout="OIHW4o4i"
    ),
    "convolution result": relax.op.nn.conv2d(WIDE_IMAGE, KERNEL, out_layout="NCHW4c"),
    "transposed": relax.op.nn.conv2d_transpose(WIDE_IMAGE, KERNEL, out_layout="NCHW4c"),
    "resize": relax.op.image.resize2d(BLOCKED_IMAGE, (16, 16), layout="NCHW4c"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("call", BLOCKED.values(), ids=BLOCKED.keys())
def test_a_blocked_layout_is_declined_by_its_name(call, target):
    builder = relax.BlockBuilder()
    with builder.function("main", [each for each in call.args if isinstance(each, relax.Var)]):
        normalized = builder.normalize(call)
        builder.emit_func_output(normalized)
    view = OpView.of(normalized)
    assert view is not None
    refusal = refusal_by_rule(target, view, lambda: view.name)
    assert refusal is not None
    assert "4c" in refusal.detail
