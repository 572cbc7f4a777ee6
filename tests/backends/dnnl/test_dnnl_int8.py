"""Quantization and products of int8: against TVM without offload and against numpy, over types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, run, tvm_alone
from tvm import relax
from tvm.relax import op

Arrays = Sequence[np.ndarray]


def constant(values: object, dtype: str) -> relax.Expr:
    return relax.const(np.asarray(values, dtype))


def quantize(x: relax.Expr, scale: float, zero: int = 0, dtype: str = "uint8") -> relax.Expr:
    return op.quantize(x, constant(scale, "float32"), constant(zero, dtype), 1, dtype)


def dequantize(x: relax.Expr, scale: float, zero: int = 0, dtype: str = "uint8") -> relax.Expr:
    return op.dequantize(x, constant(scale, "float32"), constant(zero, dtype), 1)


def rounded(x: relax.Expr, scale: float, zero: int = 0, dtype: str = "uint8") -> relax.Expr:
    """Quantized and dequantized again, as networks in the format QDQ do between all ops."""
    return dequantize(quantize(x, scale, zero, dtype), scale, zero, dtype)


def weights(*shape: int, scales: object = 0.02, axis: int = 0, zero: int = 0, seed: int = 3) -> relax.Expr:
    values = np.random.default_rng(seed).integers(-128, 128, shape)
    zeros = np.full(np.shape(scales), zero)
    return op.dequantize(constant(values, "int8"), constant(scales, "float32"), constant(zeros, "int8"), axis)


def steps(count: int) -> np.ndarray:
    return np.linspace(0.01, 0.03, count)


@dataclass(frozen=True, slots=True)
class Int8Case:
    """A quantized graph.

    Attributes
    ----------
    name
        Also the name of the function.
    inputs
        Shapes and types.
    make
        From the inputs to the result.
    quantum
        How far the result may be off: what one step of the last quantization is worth.
    products
        How many products of int8 it has to become.
    """

    name: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    make: Callable[..., Any]
    quantum: float
    products: int = 1

    def arrays(self) -> list[np.ndarray]:
        """Seeded arguments."""
        rng = np.random.default_rng(len(self.name))
        return [
            rng.standard_normal(shape).astype(dtype)
            if dtype == "float32"
            else rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
            for shape, dtype in self.inputs
        ]


CASES: list[Int8Case] = []


def case(
    name: str, *inputs: tuple[tuple[int, ...], str], quantum: float = 1, products: int = 1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Int8Case(name, inputs, make, quantum, products))
        return make

    return register


IMAGE = (2, 16, 9, 9)


def _convolutions() -> None:
    """Types, zero points, one scale or one a channel, geometry; the last quantization is worth 0.5."""
    kinds: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
        "3x3": ((32, 16, 3, 3), {"padding": 1}),
        "1x1": ((24, 16, 1, 1), {}),
        "strided": ((17, 16, 3, 3), {"strides": 2, "padding": (0, 1, 2, 1)}),
        "dilated": ((16, 16, 3, 3), {"dilation": 2, "padding": 2}),
        "grouped": ((32, 4, 3, 3), {"groups": 4, "padding": 1}),
        "depthwise": ((16, 1, 3, 3), {"groups": 16, "padding": 1}),
    }
    for name, (kernel, attrs) in kinds.items():
        for dtype, zero in (("uint8", 0), ("uint8", 130), ("int8", 0), ("int8", -7)):
            for scales in (0.02, steps(kernel[0])):

                def make(
                    x: relax.Expr,
                    dtype: str = dtype,
                    zero: int = zero,
                    scales: object = scales,
                    kernel: tuple[int, ...] = kernel,
                    attrs: dict[str, Any] = attrs,
                ) -> relax.Expr:
                    y = op.nn.conv2d(
                        dequantize(x, 0.05, zero, dtype), weights(*kernel, scales=scales), **attrs
                    )
                    return quantize(op.nn.relu(y), 0.5, zero, dtype)

                many = "channels" if np.ndim(scales) else "tensor"
                full = f"{name}_{dtype}_{abs(zero)}_{many}"
                CASES.append(Int8Case(f"conv2d_{full}", ((IMAGE, dtype),), make, 1))


_convolutions()


@case("conv_biased", (IMAGE, "float32"))
def _(x: relax.Expr) -> Any:
    bias = op.dequantize(
        constant(np.arange(-8, 8) * 40, "int32"),
        constant(steps(16), "float32"),
        constant([0] * 16, "int32"),
        0,
    )
    y = op.nn.conv2d(rounded(x, 0.03, 117), weights(16, 16, 3, 3, scales=steps(16)), padding=1)
    return quantize(op.add(y, op.reshape(bias, (1, 16, 1, 1))), 0.4, 99)


@case("conv1d", ((2, 16, 20), "uint8"))
def _(x: relax.Expr) -> Any:
    return quantize(op.nn.conv1d(dequantize(x, 0.05, 3), weights(8, 16, 5), strides=2, padding=2), 0.5, 100)


@case("conv3d", ((1, 8, 6, 7, 8), "uint8"))
def _(x: relax.Expr) -> Any:
    return quantize(op.nn.conv3d(dequantize(x, 0.05, 3), weights(8, 8, 3, 3, 3), padding=1), 0.7, 100)


@case("conv_nhwc_hwio", ((2, 9, 9, 16), "uint8"))
def _(x: relax.Expr) -> Any:
    kernel = weights(3, 3, 16, 32, scales=steps(32), axis=3)
    y = op.nn.conv2d(dequantize(x, 0.05, 9), kernel, padding=1, data_layout="NHWC", kernel_layout="HWIO")
    return quantize(op.nn.relu(y), 0.5)


@case("conv_to_numbers", (IMAGE, "uint8"), quantum=0.001)
def _(x: relax.Expr) -> Any:
    return op.nn.conv2d(dequantize(x, 0.05, 4), weights(8, 16, 3, 3, scales=steps(8)))


@case("residual_block", (IMAGE, "float32"), products=3)
def _(x: relax.Expr) -> Any:
    x = rounded(x, 0.03, 120)
    y = rounded(op.nn.conv2d(x, weights(16, 16, 3, 3, scales=steps(16)), padding=1), 0.3)
    y = rounded(op.nn.conv2d(y, weights(16, 16, 1, 1, scales=steps(16), seed=5)), 2.0, 131)
    z = rounded(op.nn.conv2d(x, weights(16, 16, 1, 1, scales=steps(16), seed=6)), 0.2, 90)
    return quantize(op.nn.relu(op.add(y, z)), 1.5)


@case("residual_in_place", (IMAGE, "float32"), products=2)
def _(x: relax.Expr) -> Any:
    x = rounded(op.nn.conv2d(rounded(x, 0.03, 120), weights(16, 16, 1, 1, scales=steps(16))), 0.1037, 3)
    y = rounded(op.nn.conv2d(x, weights(16, 16, 3, 3, scales=steps(16), seed=5), padding=1), 0.6931, 131)
    return quantize(op.nn.relu(op.add(x, y)), 0.5772)


@case("residual_of_positive_parts", (IMAGE, "float32"), products=2)
def _(x: relax.Expr) -> Any:
    """A zero point keeps what is negative, so relu is no clip of the bytes."""
    bias = constant(np.linspace(-2, 2, 16).reshape(1, 16, 1, 1), "float32")
    x = rounded(x, 0.03, 120)
    y = rounded(op.nn.conv2d(x, weights(16, 16, 1, 1, scales=steps(16))), 0.1037, 130)
    z = op.add(op.nn.conv2d(y, weights(16, 16, 3, 3, scales=steps(16), seed=5), padding=1), bias)
    return quantize(op.nn.relu(op.add(rounded(op.nn.relu(z), 0.6931, 50), y)), 0.5772, 60)


@case("pools_and_views_between", (IMAGE, "float32"), products=2)
def _(x: relax.Expr) -> Any:
    y = rounded(op.nn.conv2d(rounded(x, 0.03, 120), weights(32, 16, 3, 3), padding=1), 0.4, 90)
    y = rounded(op.nn.max_pool2d(y, (3, 3), (2, 2), padding=(1, 1)), 0.4, 90)
    y = op.reshape(op.permute_dims(y, (0, 2, 3, 1)), (50, 32))
    return quantize(op.matmul(rounded(y, 0.4, 90), weights(32, 24, scales=steps(24), axis=1)), 1.5, 100)


@case("global_average", (IMAGE, "float32"), products=2)
def _(x: relax.Expr) -> Any:
    y = rounded(op.nn.relu(op.nn.conv2d(rounded(x, 0.03, 120), weights(32, 16, 3, 3))), 0.4)
    y = rounded(op.nn.adaptive_avg_pool2d(y, (1, 1)), 0.2)
    w = op.permute_dims(weights(10, 32, scales=steps(10)))
    return quantize(op.matmul(op.reshape(y, (2, 32)), w), 0.5, 100)


@case("concat_of_equal_scales", ((1, 16, 6, 6), "float32"), products=3)
def _(x: relax.Expr) -> Any:
    x = rounded(x, 0.03, 120)
    parts = [rounded(op.nn.conv2d(x, weights(16, 16, 1, 1, seed=seed)), 0.4, 90) for seed in (1, 2)]
    y = rounded(op.concat(parts, 1), 0.4, 90)
    return quantize(op.nn.conv2d(y, weights(8, 32, 1, 1)), 1.5, 128)


def _parts(x: relax.Expr) -> list[relax.Expr]:
    """As in SqueezeNet: what is joined has scales of its own, and none of those behind the join."""
    made = [op.nn.conv2d(x, weights(16, 16, 1, 1, seed=seed)) for seed in (1, 2)]
    return [
        rounded(part, scale, zero) for part, scale, zero in zip(made, (0.4, 0.31), (90, 117), strict=True)
    ]


@case("concat_of_other_scales", ((1, 16, 6, 6), "float32"), products=3)
def _(x: relax.Expr) -> Any:
    y = rounded(op.concat(_parts(rounded(x, 0.03, 120)), 1), 0.37, 100)
    return quantize(op.nn.conv2d(y, weights(8, 32, 1, 1)), 1.5, 128)


@case("pooled_concat_of_other_scales", ((2, 16, 6, 6), "float32"), products=3)
def _(x: relax.Expr) -> Any:
    x = rounded(x, 0.03, 120)
    y = op.nn.max_pool2d(op.concat([*_parts(x), x], 1), (3, 3), (2, 2), padding=(1, 1))
    return quantize(op.nn.conv2d(rounded(y, 0.37, 100), weights(8, 48, 1, 1)), 1.5, 128)


def _of_channels(count: int, low: float, high: float) -> relax.Expr:
    return constant(np.linspace(low, high, count).reshape(1, count, 1, 1), "float32")


@case("norm_of_a_join", ((1, 16, 6, 6), "float32"), products=3)
def _(x: relax.Expr) -> Any:
    """As in DenseNet, with an addition that is quantized by itself."""
    y = op.concat(_parts(rounded(x, 0.03, 120)), 1)
    y = op.add(op.multiply(y, _of_channels(32, 0.5, 2)), _of_channels(32, -9, 9))
    y = rounded(op.add(rounded(y, 0.7, 110), _of_channels(32, 3, -4)), 0.37, 20)
    return quantize(op.nn.conv2d(y, weights(8, 32, 1, 1)), 1.5, 128)


def _scaled_channels() -> None:
    """Without a product, results are equal to the bit."""
    made: dict[str, Callable[..., relax.Expr]] = {
        "both": lambda x, factors, terms: op.add(op.multiply(factors, x), terms),
        "factors": lambda x, factors, _terms: op.multiply(x, factors),
        "terms": lambda x, _factors, terms: op.add(terms, x),
    }
    kinds = (("uint8", 40, "both"), ("int8", -7, "factors"), ("float32", 0, "both"), ("uint8", 0, "terms"))
    for shape in ((2, 33, 5, 7), (1, 5003, 1, 2)):
        for dtype, zero, name in kinds:

            def make(
                x: relax.Expr,
                channels: int = shape[1],
                dtype: str = dtype,
                zero: int = zero,
                of: Callable[..., relax.Expr] = made[name],
            ) -> relax.Expr:
                data = x if dtype == "float32" else dequantize(x, 0.0371, zero, dtype)
                factors, terms = _of_channels(channels, -1.3, 2.1), _of_channels(channels, 1, -2)
                return quantize(of(data, factors, terms), 0.0173, 2 * zero, "int8" if zero else "uint8")

            full = f"scaled_channels_{shape[1]}_{dtype}_{name}"
            CASES.append(Int8Case(full, ((shape, dtype),), make, 0, products=0))


_scaled_channels()


def _products() -> None:
    for dtype, zero in (("uint8", 0), ("uint8", 130), ("int8", -7)):
        for many, scales in (("tensor", 0.02), ("channels", steps(24))):

            def make(
                x: relax.Expr, dtype: str = dtype, zero: int = zero, scales: object = scales
            ) -> relax.Expr:
                y = op.matmul(dequantize(x, 0.05, zero, dtype), weights(40, 24, scales=scales, axis=1))
                return quantize(op.nn.gelu(op.add(y, constant(steps(24) * 50, "float32"))), 0.6, zero, dtype)

            CASES.append(Int8Case(f"matmul_{dtype}_{abs(zero)}_{many}", (((3, 7, 40), dtype),), make, 1))


_products()


@case("matmul_weights_with_a_zero_point", ((5, 40), "uint8"))
def _(x: relax.Expr) -> Any:
    return quantize(op.matmul(dequantize(x, 0.05, 5), weights(40, 24, zero=-9)), 0.6, 128)


def _heads(x: relax.Expr, scale: float, zero: int, dtype: str, seed: int) -> relax.Expr:
    """A projection that is quantized at every step, as attention in the format QDQ has it."""
    y = rounded(op.matmul(x, weights(32, 32, scales=steps(32), axis=1, seed=seed)), scale, zero, dtype)
    y = rounded(op.reshape(y, (2, 6, 4, 8)), scale, zero, dtype)
    return rounded(op.permute_dims(y, (0, 2, 1, 3)), scale, zero, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_attention_is_products_of_int8(dtype: str) -> None:
    zero = 128 if dtype == "uint8" else 2

    def make(x: relax.Expr) -> relax.Expr:
        x = rounded(x, 0.03, zero, dtype)
        q, k, v = (_heads(x, scale, zero, dtype, seed) for seed, scale in enumerate((0.05, 0.04, 0.05)))
        scores = rounded(op.matmul(q, op.permute_dims(k, (0, 1, 3, 2))), 0.3, zero, dtype)
        share = rounded(op.nn.softmax(op.multiply(scores, constant(0.35, "float32"))), 1 / 127, 0, dtype)
        return quantize(op.permute_dims(op.matmul(share, v), (0, 2, 1, 3)), 0.05, zero, dtype)

    each = Int8Case(f"attention_{dtype}", (((2, 6, 32), "float32"),), make, 2, products=5)
    check(each, offload(module_of([each])), tvm_alone(module_of([each])))


def module_of(cases: Sequence[Int8Case]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for each in cases:
        params = [
            relax.Var(f"x{index}", relax.TensorType(shape, dtype))
            for index, (shape, dtype) in enumerate(each.inputs)
        ]
        with builder.function(each.name, params):
            with builder.dataflow():
                output = builder.emit_output(builder.normalize(each.make(*params)))
            builder.emit_func_output(output)
    return builder.finalize()


@cache
def all_offloaded() -> Offloaded:
    return offload(module_of(CASES))


@cache
def all_on_host() -> relax.VirtualMachine:
    return tvm_alone(module_of(CASES))


def difference(left: Arrays, right: Arrays) -> np.ndarray:
    (one,), (other,) = left, right
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    off: np.ndarray = np.abs(one.astype("float64") - other.astype("float64"))
    return off


def check(each: Int8Case, offloaded: Offloaded, host: relax.VirtualMachine) -> None:
    expected = run(host, each.name, each.arrays())
    for _ in range(2):
        off = difference(offloaded.call(each.name, *each.arrays()), expected)
        assert off.max() <= each.quantum
        assert each.quantum < 1 or np.mean(off > 0) < 0.01, "more than ties can explain"
    assert len(np.unique(expected[0])) > 8, "a saturated result hides errors"
    (symbol,) = offloaded.symbols_of(each.name)
    products = [step for step in offloaded.plan(symbol) if step.startswith(("convolution", "matmul"))]
    assert len(products) == each.products
    assert all(" int8" in step for step in products), products


@needs_onednn
@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_quantized_graph_becomes_products_of_int8(each: Int8Case) -> None:
    check(each, all_offloaded(), all_on_host())


@needs_onednn
@pytest.mark.parametrize("name", ["concat_of_other_scales", "pooled_concat_of_other_scales"])
def test_bytes_are_joined_and_pooled(name: str) -> None:
    """Nothing is dequantized for it; a part that no product makes is quantized by itself."""
    (each,) = (each for each in CASES if each.name == name)
    all_offloaded().call(name, *each.arrays())
    (symbol,) = all_offloaded().symbols_of(name)
    steps_between = [step for step in all_offloaded().plan(symbol) if step.startswith(("concat", "pooling"))]
    assert len(steps_between) == 1 + ("pooled" in name)
    assert all(" u8:" in step for step in steps_between), steps_between


@needs_onednn
def test_channels_are_scaled_between_bytes() -> None:
    """Of the norm of a join, only the join is of floats: each of its parts has a scale of its own."""
    (each,) = (each for each in CASES if each.name == "norm_of_a_join")
    all_offloaded().call(each.name, *each.arrays())
    (symbol,) = all_offloaded().symbols_of(each.name)
    kinds = [step.split()[0] for step in all_offloaded().plan(symbol)]
    assert kinds.count("requantize") == 2
    assert not {"binary", "dequantize"} & {*kinds}


@needs_onednn
@pytest.mark.parametrize(
    ("name", "chain"),
    [
        ("residual_block", " +eltwise +eltwise +eltwise +sum"),
        ("concat_of_other_scales", " +eltwise +eltwise"),
        # A bias of floats may be NaN, so a minimum comes before the lower bound; zero points keep relus.
        ("residual_of_positive_parts", (" +eltwise" * 2 + " +binary") * 2 + " +eltwise"),
    ],
)
def test_chains_round_and_clip_alone(name: str, chain: str) -> None:
    """Scales in front of the chain and behind it take all factors; the type of the result clips it."""
    (each,) = (each for each in CASES if each.name == name)
    all_offloaded().call(name, *each.arrays())
    (symbol,) = all_offloaded().symbols_of(name)
    steps = [step for step in all_offloaded().plan(symbol) if step.startswith("convolution")]
    assert max((step.partition(" int8")[2] for step in steps), key=len) == chain


@needs_onednn
def test_product_of_the_largest_elements_does_not_saturate() -> None:
    x = relax.Var("x", relax.TensorType((4, 512), "uint8"))
    kernel = op.dequantize(
        constant(np.full((512, 8), 127), "int8"), constant(1, "float32"), constant(0, "int8")
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(op.matmul(dequantize(x, 1.0), kernel)))
        builder.emit_func_output(output)
    offloaded = offload(builder.finalize())
    (result,) = offloaded.call("main", np.full((4, 512), 255, "uint8"))
    np.testing.assert_array_equal(result, np.full((4, 8), 255 * 127 * 512, "float32"))


@needs_onednn
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("int8", "uint8"), "input 0 is not uint8"),
        (("float32", "uint8"), "input 0 is not uint8"),
        (("uint8", "int8"), "output 0 is not uint8"),
        (("uint8", "bool"), "output 0 is not uint8"),
    ],
)
def test_elements_of_another_type_are_refused(arguments: tuple[str, str], message: str) -> None:
    (symbol,) = all_offloaded().symbols_of("conv1d")
    function = all_offloaded().linked.get_function(symbol, query_imports=True)
    shapes = ((2, 16, 20), (2, 8, 10))
    tensors = [
        tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in zip(shapes, arguments, strict=True)
    ]
    with pytest.raises(TypeError, match=message):
        function(*tensors)
