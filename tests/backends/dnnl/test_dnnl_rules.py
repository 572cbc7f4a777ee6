"""What the rules decline, and the reason they give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import ops_on_host, single
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.backends.dnnl.ops import CONVERTERS
from annotated_region.errors import BackendUnavailableError
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of, rules_of


def var(*shape: object, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, dtype))


def const(*shape: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.ones(shape, dtype))


def answer(call: relax.Expr) -> bool | str:
    view = OpView.of(relax.BlockBuilder().normalize(call))
    assert view is not None
    rule = rule_of("dnnl", view.name)
    assert rule is not None
    return rule(view)


X = var(1, 8, 6, 6)
N = tirx.Var("n", "int64")
V = const(8)
ENDLESS = relax.const(np.full((8, 8, 1, 1), np.inf, "float32"))
HEADS = var(1, 4, 2, 8)
INDEX = var(3, dtype="int64")
S, Z = relax.const(0.5, "float32"), relax.const(0, "int8")


def norm(**attrs: object) -> relax.Expr:
    return op.nn.batch_norm(X, V, V, V, V, **{"axis": 1, "training": False, **attrs})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: op.nn.relu(var(2, 3, dtype="float64")),
            "the data is of type float64; only float32, float16, bfloat16 is known",
        ),
        (lambda: op.nn.relu(var(2, 3, dtype="int32")), "the data is of type int32"),
        (lambda: op.nn.relu(relax.Var("x", relax.TensorType(ndim=2, dtype="float32"))), "has no known shape"),
        (lambda: op.nn.relu(var(*[1] * 9)), "the data has rank 9; supported ranks are 0 to 8"),
        (lambda: op.nn.relu(var(2, 0)), "the data is empty"),
        (lambda: op.nn.conv2d(X, const(8, 8, 3, 3), padding=-1), "the padding [-1, -1, -1, -1] is below 0"),
        (lambda: op.nn.conv2d(X, const(8, 8, 3, 3), dilation=0), "the dilation [0, 0] is below 1"),
        (lambda: op.nn.max_pool2d(X, (2, 2), dilation=(1, 0)), "the dilation [1, 0] is below 1"),
        (lambda: op.nn.avg_pool2d(X, (2, 2), padding=-1), "the padding [-1, -1, -1, -1] is below 0"),
        (
            lambda: op.nn.conv2d_transpose(X, const(8, 8, 3, 3), padding=-1),
            "the padding [-1, -1, -1, -1] is below 0",
        ),
        (lambda: op.nn.conv2d(X, ENDLESS, padding=1), "the kernel is not finite"),
        (lambda: op.nn.conv2d_transpose(X, ENDLESS), "the kernel is not finite"),
        (lambda: op.nn.prelu(X, relax.const(np.full(8, np.nan, "float32"))), "a slope is not finite"),
        (lambda: norm(epsilon=float("nan")), "the epsilon is not finite"),
        (
            lambda: op.nn.layer_norm(var(2, 8), V, V, axes=[-1], epsilon=float("inf")),
            "the epsilon is not finite",
        ),
        (lambda: op.nn.rms_norm(var(2, 8), V, axes=[-1], epsilon=float("nan")), "the epsilon is not finite"),
        (
            lambda: op.nn.group_norm(X, V, V, 2, 1, [2, 3], epsilon=float("nan")),
            "the epsilon is not finite",
        ),
        (lambda: op.nn.conv2d(X, const(8, 8, 3, 3), out_dtype="float64"), "the result is of type float64"),
        (lambda: op.nn.conv2d(X, var(N, 8, 3, 3)), "the kernel has a symbolic extent"),
        (
            lambda: op.nn.conv2d_transpose(var(1, 6, 6, 8), const(8, 8, 3, 3), data_layout="NHWC"),
            "is not NCHW",
        ),
        (
            lambda: op.nn.conv2d_transpose(X, const(8, 8, 3, 3), strides=(2, 2), output_padding=(1, 1)),
            "output_padding exceeds the padding",
        ),
        (lambda: op.nn.max_pool2d(X, (2, 2), padding=(2, 2)), "the padding is as wide as the window"),
        (lambda: op.nn.avg_pool2d(X, (2, 2), dilation=(2, 2)), "an average over a dilated window"),
        (
            lambda: op.nn.avg_pool2d(X, (2, 2), (2, 2), (1, 1), ceil_mode=True),
            "an average with ceil_mode, whose last window may hold nothing but padding",
        ),
        (
            lambda: op.nn.avg_pool2d(X, (3, 3), (2, 2), (1, 1), ceil_mode=True, count_include_pad=True),
            "an average with ceil_mode, whose divisor counts padding, but not what is beyond it",
        ),
        (lambda: op.nn.adaptive_avg_pool2d(X, (4, 4), "NCHW", "NHWC"), "the layout of the result is NHWC"),
        (lambda: op.clip(X, 2, 1), "the bounds are not two constants with low <= high"),
        (lambda: op.nn.leakyrelu(X, float("nan")), "the slope is not finite"),
        (lambda: op.add(X, relax.const(np.inf, "float32")), "the right operand is not finite"),
        (lambda: norm(training=True), "it is in training mode"),
        (lambda: norm(center=False), "it disables the shift, which is not 0"),
        (
            lambda: op.nn.group_norm(X, relax.const(np.full(8, 2, "float32")), V, 2, 1, [2, 3], scale=False),
            "it disables the scale, which is not 1",
        ),
        (lambda: op.nn.layer_norm(X, V, V, axes=[1]), "it normalises over axes (1,); only the last axes are"),
        (
            lambda: op.nn.group_norm(var(1, 6, 6, 8), V, V, 4, 3, [1, 2]),
            "it normalises over axes (1, 2) with the channels on 3",
        ),
        (
            lambda: op.strided_slice(X, [1], [7], [0], [-1]),
            "or its steps are not positive",
        ),
        (
            lambda: op.strided_slice(var(N, 3), [0], [-2], [-1], assume_inbound=True),
            "its begins are unknown or before the data",
        ),
        (lambda: op.take(X, relax.const(np.array([0, -1]), "int64"), 1), "an index is out of range"),
        (lambda: op.take(var(3, 2, dtype="int32"), INDEX, 0, "nan"), "mode 'nan' needs a float dtype"),
        (lambda: op.index_tensor(X, [var(2, dtype="int8")]), "index 0 is of type int8"),
        (lambda: op.scatter_elements(X, var(1, 8, 6, 6, dtype="int8"), X), "the indices is of type int8"),
        (
            lambda: op.scatter_elements(var(4, N), var(3, 2, dtype="int64"), var(3, 2), 0),
            "there may be more indices than elements along axis 1",
        ),
        (
            lambda: op.scatter_elements(var(4, dtype="bool"), INDEX, var(3, dtype="bool"), 0, "max"),
            "the reduction max of bool",
        ),
        (
            lambda: op.scatter_nd(var(N, 3), var(2, 1, dtype="int16"), var(2, 3)),
            "the indices is of type int16",
        ),
        (lambda: op.index_put(var(5), (INDEX,), var()), "no index has the extents of the values"),
        (lambda: op.floor_divide(INDEX, INDEX), "the divisor is not a nonzero constant"),
        (lambda: op.mod(INDEX, relax.const(0, "int64")), "the divisor is not a nonzero constant"),
        (
            lambda: op.reverse_sequence(X, var(8, dtype="int32"), 2, 1),
            "axes of batch and time other than the first two",
        ),
        (lambda: op.median(X, [1, 2]), "a median over several axes"),
        (lambda: op.median(var(N, 3), [0]), "a median along a symbolic extent"),
        (lambda: op.median(var(N, 3)), "a median along a symbolic extent"),
        (lambda: op.cumsum(var(3, dtype="bool")), "the result is of type bool"),
        (lambda: op.astype(var(3, dtype="bool"), "int8"), "the result is of type int8"),
        (lambda: op.nn.pad(INDEX, (1, 1), "constant", 0.5), "the value 0.5 is not one of int64"),
        (lambda: op.take(X, relax.const(8, "int64"), 1), "an index is out of range"),
        (lambda: op.nn.pad(X, (0, 0, 0, 0, 1, 1, 6, 1), "reflect"), "it reflects 6 elements of 6"),
        (lambda: op.take(var(N, 3), relax.const(-1, "int64"), 0), "an index is out of range"),
        (lambda: op.greater(var(3, dtype="int8"), var(3, dtype="int8")), "is of type int8"),
        (lambda: op.equal(INDEX, var(3, dtype="int32")), "the operands are of the types int64 and int32"),
        (lambda: op.power(INDEX, relax.const(2, "int64")), "the left operand is of type int64"),
        (lambda: op.equal(X, relax.const(np.nan, "float32")), "the right operand is not finite"),
        (lambda: op.max(var(3, 4, dtype="int8"), [1]), "the data is of type int8"),
        (lambda: op.nn.prelu(X, const(6), axis=3), "the slopes are not along the channels"),
        (
            lambda: op.image.resize2d(
                X, (9, 9), layout="NCHW", coordinate_transformation_mode="tf_crop_and_resize"
            ),
            "resize with coordinates tf_crop_and_resize",
        ),
        (
            lambda: op.image.resize2d(X, (9, 9), layout="NCHW", method="cubic", cubic_exclude=True),
            "cubic resize that leaves out pixels outside of the image",
        ),
        (lambda: op.nn.attention(HEADS, HEADS, HEADS, window_size=2), "it has a sliding window"),
        (lambda: op.nn.pad(var(), ()), "a tensor of rank 0 cannot be padded"),
        (lambda: op.matmul(var(3, 4, dtype="int8"), var(4, 3, dtype="int8")), "the result is of type int8"),
        (
            lambda: op.matmul(var(3, 4, dtype="int64"), var(4, 3, dtype="int32"), "int32"),
            "int64 times int32 has the result type int32",
        ),
        (
            lambda: op.quantize(X, S, Z, 1, "float8_e4m3fn"),
            "the result is of type float8_e4m3fn; only int8, uint8",
        ),
        (lambda: op.quantize(var(2, 3, dtype="float16"), S, Z), "the data is of type float16"),
        (lambda: op.quantize(X, S, var(8, dtype="int32"), 1), "the zero point is of type int32"),
        (lambda: op.quantize(X, relax.const(0.0, "float32"), Z), "a scale is not a finite positive float32"),
        (lambda: op.quantize(X, S, relax.const(128, "int32")), "a zero point is not a value of int8"),
        (lambda: op.dequantize(var(3, dtype="int16"), S, Z), "the data is of type int16"),
        (lambda: op.dequantize(var(3, dtype="int8"), S, Z, 0, "float16"), "the result is of type float16"),
        (lambda: op.concat((var(2, 3, dtype="int16"), var(2, 3, dtype="int16"))), "is of type int16"),
        (lambda: op.reshape(var(4, dtype="int16"), (2, 2)), "the data is of type int16"),
    ],
)
def test_declined_with_a_reason(make: Callable[[], relax.Expr], reason: str) -> None:
    given = answer(make())
    assert isinstance(given, str)
    assert reason in given


@pytest.mark.parametrize(
    "make",
    [
        lambda: op.nn.relu(var(N, 3)),
        lambda: op.nn.conv2d(var(N, 3, 8, 8), const(4, 3, 3, 3)),
        lambda: op.add(X, relax.const(1.0, "float32")),
        lambda: op.reshape(var(N, 4), (N * 2, 2)),
        lambda: op.quantize(var(N, 8), const(8), relax.const(np.zeros(8, "int8")), 1),
        lambda: op.dequantize(var(N, 8, dtype="int32"), S, relax.const(7, "int32")),
        lambda: op.take(var(N, 3), relax.const(0, "int64"), 0),
        lambda: op.equal(X, relax.const(-np.inf, "float32")),
        lambda: op.take(X, relax.const(np.array([0, 2]), "int64"), 1),
        lambda: op.take(var(N, 3), var(2, N, dtype="int32"), 0),
        lambda: op.take(var(3, 8, dtype="uint8"), INDEX, 0),
        lambda: op.floor_mod(INDEX, relax.const(-3, "int64")),
        lambda: op.mod(X, relax.const(0.0, "float32")),
        lambda: op.median(var(N, 3), [1]),
        lambda: op.reverse_sequence(var(N, N, 3), var(N, dtype="int32"), 0, 1),
        lambda: op.arange(0, N, 1, "int64"),
        lambda: op.nn.pad(X, (0, 0, 0, 0, 1, 1, 5, 1), "reflect"),
        norm,
    ],
)
def test_claimed(make: Callable[[], relax.Expr]) -> None:
    assert answer(make()) is True


@pytest.mark.parametrize(
    ("given", "between", "found"),
    [("float32", "int8", "bool"), ("bool", "uint8", "bool"), ("bool", "int8", "float32")],
)
def test_a_largest_number_that_is_no_any_is_not_claimed(given: str, between: str, found: str) -> None:
    x = var(3, 4, dtype=given)
    module = single([x], op.astype(op.max(op.astype(x, between), [1]), found))
    partitioned = ar.partition(module, ["dnnl"], prepare=False, cross_compile=True)
    assert {"astype", "max"} <= ops_on_host(partitioned)


def test_every_claimed_op_has_a_translation() -> None:
    assert set(rules_of("dnnl")) == set(CONVERTERS)


def test_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "RUNTIME_WHEEL", "no-such-wheel")
    remedy = "pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0"
    assert installation.unavailable() == f"oneDNN's library is not installed; {remedy}"
    with pytest.raises(
        BackendUnavailableError, match="target 'dnnl': oneDNN's library is not installed; pip"
    ):
        installation.build_options()


def test_tvm_knows_the_code_generator() -> None:
    assert tvm.get_global_func("relax.ext.dnnl", allow_missing=True) is not None


def test_a_slice_that_begins_at_an_extent_is_claimed():
    whole, inside = var(3 * N, 4), {"assume_inbound": True}
    assert answer(op.strided_slice(whole, [0], [N], [N + N], **inside)) is True
    assert answer(op.strided_slice(whole, [0], [N - 1], [N + N], **inside)) is True
