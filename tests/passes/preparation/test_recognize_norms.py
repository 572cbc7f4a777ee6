"""Norms found in their parts, every spelling of them, with scale and shift; everything else stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from kits.passes.preparation.composition_kit import NORMALIZED, Spelling, number, reference
from kits.passes.preparation.preparation_kit import becomes, constant, module, ops, prepare, run, values
from tvm import relax

op = relax.op
EPSILON = float(np.float32(1e-5))
NORMS = {"nn.rms_norm", "nn.layer_norm", "nn.instance_norm", "nn.group_norm"}


def ones(size: int) -> relax.Expr:
    return relax.const(np.ones(size, "float32"))


def zeros(size: int) -> relax.Expr:
    return relax.const(np.zeros(size, "float32"))


def rms_norm(x: relax.Expr, scale: relax.Expr) -> relax.Expr:
    return op.nn.rms_norm(x, scale, [-1], EPSILON)


def layer_norm(x: relax.Expr, scale: relax.Expr, shift: relax.Expr) -> relax.Expr:
    return op.nn.layer_norm(x, scale, shift, [-1], EPSILON)


def bare(name: str, x: relax.Expr, size: int) -> relax.Expr:
    return rms_norm(x, ones(size)) if name == "rms_norm" else layer_norm(x, ones(size), zeros(size))


def spelled(spelling: Spelling, *shape: int | str) -> tvm.IRModule:
    return module(lambda _builder, x: spelling.build(x, "float32"), x=shape)


@pytest.mark.parametrize("spelling", NORMALIZED, ids=lambda spelling: spelling.name)
def test_every_spelling_becomes_the_op(spelling: Spelling) -> None:
    for shape in ((2, 5, 6), ("n", 1, 6), (3, 1)):
        size = int(shape[-1])
        expected = module(lambda _builder, x, size=size: bare(spelling.function, x, size), x=shape)
        becomes(spelled(spelling, *shape), expected)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_parts_and_op_compute_the_same(name: str) -> None:
    """Beside a third evaluation, in double precision."""
    data = np.random.default_rng(7).normal(3.0, 2.0, (4, 9)).astype("float32")
    data[1] = 0.0
    data[2] = 1e-4
    wanted = reference[name](data.astype("float64"))
    for spelling in (each for each in NORMALIZED[::5] if each.function == name):
        mod = spelled(spelling, 4, 9)
        for each in (mod, prepare(mod)):
            np.testing.assert_allclose(run(each, data)[0], wanted, rtol=1e-5, atol=1e-5)


PARTS = {
    name: next(each for each in NORMALIZED if each.function == name) for name in ("rms_norm", "layer_norm")
}


def parts(name: str, x: relax.Expr) -> relax.Expr:
    return PARTS[name].build(x, "float32")


@pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 1, 6)])
def test_a_scale_goes_into_an_rms_norm(shape: tuple[int, ...]) -> None:
    before = module(lambda _builder, x: op.multiply(constant(*shape), parts("rms_norm", x)), x=(2, 5, 6))
    after = module(lambda _builder, x: rms_norm(x, relax.const(values(*shape).reshape(6))), x=(2, 5, 6))
    becomes(before, after)


def test_a_scale_that_is_an_input_goes_in_as_well() -> None:
    before = module(lambda _builder, x, w: op.multiply(w, parts("rms_norm", x)), x=("n", 6), w=(6,))
    becomes(before, module(lambda _builder, x, w: rms_norm(x, w), x=("n", 6), w=(6,)))
    before = module(lambda _builder, x, w: op.multiply(parts("rms_norm", x), w), x=("n", 6), w=(1, 6))
    after = module(lambda _builder, x, w: rms_norm(x, op.reshape(w, (6,))), x=("n", 6), w=(1, 6))
    becomes(before, after)


def test_scale_and_shift_go_into_a_layer_norm() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.add(op.multiply(parts("layer_norm", x), constant(6)), constant(6, seed=1))

    after = module(lambda _builder, x: layer_norm(x, constant(6), constant(6, seed=1)), x=(2, "n", 6))
    becomes(module(body, x=(2, "n", 6)), after)


def test_what_comes_behind_the_shift_stays_behind() -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        shifted = op.add(parts("layer_norm", x), constant(6))
        return op.add(op.multiply(shifted, constant(6, seed=1)), constant(6, seed=2))

    assert ops(prepare(module(body, x=(2, 6)))) == {"nn.layer_norm": 1, "multiply": 1, "add": 1}


OTHER_OPERANDS: dict[str, relax.Expr] = {
    "one number": number(2.0),
    "another axis": constant(2, 1),
    "more axes": constant(3, 2, 6),
    "all elements": constant(2, 6),
}


@pytest.mark.parametrize("name", OTHER_OPERANDS)
def test_an_operand_that_is_no_scale_stays(name: str) -> None:
    found = ops(
        prepare(module(lambda _builder, x: op.multiply(parts("rms_norm", x), OTHER_OPERANDS[name]), x=(2, 6)))
    )
    assert found == {"nn.rms_norm": 1, "multiply": 1}


def image_norm(x: relax.Expr, axes: list[int]) -> relax.Expr:
    """As TVM imports ONNX's InstanceNormalization."""
    deviation = op.sqrt(op.add(op.variance(x, axis=axes, keepdims=True), number(1e-5)))
    return op.divide(op.subtract(x, op.mean(x, axis=axes, keepdims=True)), deviation)


@pytest.mark.parametrize("shape", [("n", 4, 5, 6), (1, 4, 1, "w")])
def test_an_instance_norm(shape: tuple[int | str, ...]) -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.add(op.multiply(image_norm(x, [2, 3]), constant(4, 1, 1)), constant(1, 4, 1, 1, seed=1))

    def expected(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        scale, shift = relax.const(values(4)), relax.const(values(4, seed=1))
        return op.nn.instance_norm(x, scale, shift, 1, [2, 3], EPSILON)

    becomes(module(body, x=shape), module(expected, x=shape))


@pytest.mark.parametrize("shape", [(2, 4, 3, 6), ("n", 4, 1, 2), (1, 4, 9)])
def test_a_group_norm(shape: tuple[Any, ...]) -> None:
    """As PyTorch writes it to ONNX: groups as the channels of an instance norm, scale and shift behind."""
    rows = int(np.prod(shape[2:])) * 2
    behind = [1] * (len(shape) - 2)

    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        grouped = relax.BlockBuilder.current().emit(op.reshape(x, (x.ty.shape[0], 2, rows)))
        whole = op.reshape(image_norm(grouped, [2]), x.ty.shape)
        return op.add(op.multiply(whole, constant(4, *behind)), constant(4, *behind, seed=1))

    def expected(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        axes = list(range(2, len(shape)))
        scale, shift = (
            relax.const(values(4, *behind).reshape(4)),
            relax.const(values(4, *behind, seed=1).reshape(4)),
        )
        return op.nn.group_norm(x, scale, shift, 2, 1, axes, EPSILON)

    becomes(module(body, x=shape), module(expected, x=shape))


def test_norms_of_images_compute_the_same() -> None:
    data = np.random.default_rng(3).normal(1.0, 2.0, (2, 4, 3, 6)).astype("float32")

    def group(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        grouped = builder.emit(op.reshape(x, (2, 2, 36)))
        return op.multiply(op.reshape(image_norm(grouped, [2]), x.ty.shape), constant(4, 1, 1))

    double = data.astype("float64")
    for body, axes, shape in (
        (group, (2,), (2, 2, 36)),
        (lambda _builder, x: op.multiply(image_norm(x, [2, 3]), constant(4, 1, 1)), (2, 3), data.shape),
    ):
        rows = double.reshape(shape)
        normal = (rows - rows.mean(axes, keepdims=True)) / np.sqrt(rows.var(axes, keepdims=True) + 1e-5)
        wanted = normal.reshape(data.shape) * values(4, 1, 1)
        mod = module(body, x=data.shape)
        assert NORMS & set(ops(prepare(mod)))
        for each in (mod, prepare(mod)):
            np.testing.assert_allclose(run(each, data)[0], wanted, rtol=1e-5, atol=1e-5)


def double_mean(x: relax.Expr) -> relax.Expr:
    return op.astype(op.mean(op.astype(x, "float64"), axis=[-1], keepdims=True), "float32")


def guarded(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    """As jax2onnx writes a layer norm: rows of one value are 0, and the variance is computed in float64."""
    lowest, highest = op.min(x, axis=[-1], keepdims=True), op.max(x, axis=[-1], keepdims=True)
    centred = op.subtract(x, op.mean(x, axis=[-1], keepdims=True))
    chosen = builder.emit(op.where(op.equal(lowest, highest), number(0.0), centred))
    deviation = op.sqrt(op.add(double_mean(op.multiply(chosen, chosen)), number(1e-5)))
    return op.divide(chosen, deviation)


def test_means_in_double_precision() -> None:
    data = np.random.default_rng(3).normal(1.0, 2.0, (4, 33)).astype("float32")
    data[1] = 1000.3
    double = data.astype("float64")
    wanted = (double - double.mean(-1, keepdims=True)) / np.sqrt(double.var(-1, keepdims=True) + 1e-5)
    wanted[1] = 0
    mod = module(guarded, x=data.shape)
    assert ops(prepare(mod)) == {
        "min": 1, "max": 1, "mean": 1, "equal": 1, "subtract": 1, "where": 1, "nn.rms_norm": 1,
    }  # fmt: skip
    for each in (mod, prepare(mod)):
        np.testing.assert_allclose(run(each, data)[0], wanted, rtol=1e-5, atol=1e-5)


def in_double(width: int | str, inner: str = "float64", outer: str = "float32") -> dict[str, int]:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        centred = builder.emit(op.subtract(x, double_mean(x)))
        mean = op.mean(op.astype(op.square(centred), inner), axis=[-1], keepdims=True)
        deviation = op.sqrt(op.add(op.astype(mean, outer), number(1e-5, outer)))
        return op.divide(centred, op.astype(deviation, "float32"))

    return ops(prepare(module(body, x=(2, width))))


def test_both_means_of_a_layer_norm_may_be_in_double_precision() -> None:
    assert in_double(6) == {"nn.layer_norm": 1}
    assert in_double(8192) == {"nn.layer_norm": 1}


@pytest.mark.parametrize(
    "given",
    [(8193,), ("n",), (6, "float16"), (6, "float64", "float64")],
    ids=["long", "unknown", "half", "double"],
)
def test_other_means_stay_as_they_are(given: tuple[Any, ...]) -> None:
    assert "nn.layer_norm" not in in_double(*given)


def variant(
    mean: relax.Expr,
    quotient: Callable[[relax.Expr, relax.Expr], relax.Expr] = op.divide,
    data: relax.Expr = None,
) -> relax.Expr:
    return quotient(data, op.sqrt(op.add(mean, number(1e-5))))


DIFFERENT: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "another axis": lambda x: variant(op.mean(op.square(x), axis=[0], keepdims=True), data=x),
    "two axes": lambda x: variant(op.mean(op.square(x), axis=[1, 2], keepdims=True), data=x),
    "a sum": lambda x: variant(op.sum(op.square(x), axis=[-1], keepdims=True), data=x),
    "a product": lambda x: variant(op.mean(op.square(x), axis=[-1], keepdims=True), op.multiply, x),
    "a cube": lambda x: variant(op.mean(op.power(x, number(3.0)), axis=[-1], keepdims=True), data=x),
    "something else": lambda x: variant(op.mean(op.square(op.exp(x)), axis=[-1], keepdims=True), data=x),
    "nothing to add": lambda x: op.divide(x, op.sqrt(op.mean(op.square(x), axis=[-1], keepdims=True))),
    "a vector to add": lambda x: op.divide(
        x,
        op.sqrt(
            op.add(
                op.mean(op.square(x), axis=[-1], keepdims=True),
                relax.const(np.array([[[1e-5], [2e-5], [1e-5]]], "float32")),
            )
        ),
    ),
    "an inverse of two": lambda x: op.multiply(
        x,
        op.divide(
            number(2.0), op.sqrt(op.add(op.mean(op.square(x), axis=[-1], keepdims=True), number(1e-5)))
        ),
    ),
    "the mean of another axis": lambda x: op.divide(
        op.subtract(x, op.mean(x, axis=[1], keepdims=True)),
        op.sqrt(op.add(op.variance(x, axis=[2], keepdims=True), number(1e-5))),
    ),
    "the variance of something else": lambda x: op.divide(
        op.subtract(x, op.mean(x, axis=[2], keepdims=True)),
        op.sqrt(op.add(op.variance(op.exp(x), axis=[2], keepdims=True), number(1e-5))),
    ),
    "no subtraction": lambda x: variant(op.variance(x, axis=[-1], keepdims=True), data=x),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_resembles_a_norm_stays(name: str) -> None:
    found = ops(prepare(module(lambda _builder, x: DIFFERENT[name](x), x=(2, 3, 4))))
    assert not NORMS & set(found)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_parts_of_other_dtypes_stay(dtype: str) -> None:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        mean = op.mean(op.square(x), axis=[-1], keepdims=True)
        return op.divide(x, op.sqrt(op.add(mean, number(1e-5, dtype))))

    assert "nn.rms_norm" not in ops(prepare(module(body, dtype, x=(2, 3))))


def test_an_extent_that_is_not_known_keeps_the_parts() -> None:
    for name in PARTS:
        found = ops(prepare(module(lambda _builder, x, name=name: parts(name, x), x=(2, "n"))))
        assert not NORMS & set(found)


@pytest.mark.parametrize("part", ["square", "mean", "total", "root"])
def test_a_part_with_another_reader_keeps_the_parts(part: str) -> None:
    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        found = {"square": builder.emit(op.square(x))}
        found["mean"] = builder.emit(op.mean(found["square"], axis=[-1], keepdims=True))
        found["total"] = builder.emit(op.add(found["mean"], number(1e-5)))
        found["root"] = builder.emit(op.sqrt(found["total"]))
        return relax.Tuple([builder.emit(op.divide(x, found["root"])), found[part]])

    assert "nn.rms_norm" not in ops(prepare(module(body, x=(2, 3))))


@pytest.mark.parametrize("part", ["mean", "centre", "square"])
def test_a_part_of_a_layer_norm_with_another_reader_stays(part: str) -> None:
    """What is left may be a norm still: that of the root mean square of what is left without the mean."""

    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        found = {"mean": builder.emit(op.mean(x, axis=[-1], keepdims=True))}
        found["centre"] = builder.emit(op.subtract(x, found["mean"]))
        found["square"] = builder.emit(op.square(found["centre"]))
        variance = op.mean(found["square"], axis=[-1], keepdims=True)
        quotient = builder.emit(op.divide(found["centre"], op.sqrt(op.add(variance, number(1e-5)))))
        return relax.Tuple([quotient, found[part]])

    found = NORMS & set(ops(prepare(module(body, x=(2, 3)))))
    assert found == (set() if part == "square" else {"nn.rms_norm"})
