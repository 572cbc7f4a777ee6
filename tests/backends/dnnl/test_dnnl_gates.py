"""Activations that multiply a tensor by a function of itself: one function, alone and behind a product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import ConstantNames, needs_onednn, offload, single
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.dnnl.codegen import region_graph
from annotated_region.backends.dnnl.graph import Graph

Make = Callable[[relax.Expr], relax.Expr]
Exact = Callable[[np.ndarray], np.ndarray]
WIDTH = 4


def number(value: float) -> relax.Expr:
    return relax.const(np.float32(value))


def line(x: relax.Expr, factor: float, term: float) -> relax.Expr:
    return op.add(op.multiply(x, number(factor)), number(term))


def softplus_of_size(x: relax.Expr) -> relax.Expr:
    rest = op.log(op.add(number(1), op.exp(op.negative(op.abs(x)))))
    return op.add(op.maximum(x, number(0)), rest)


def hardswish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def mish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.tanh(np.logaddexp(0, x)))


FORMS: dict[str, tuple[str, Make, Exact]] = {
    "hardswish_of_onnx": (
        "eltwise_hardswish",
        lambda x: op.multiply(x, op.divide(op.clip(op.add(x, number(3)), 0, 6), number(6))),
        hardswish,
    ),
    "hardswish_divided_behind": (
        "eltwise_hardswish",
        lambda x: op.divide(op.multiply(x, op.clip(op.add(x, number(3)), 0, 6)), number(6)),
        hardswish,
    ),
    "hardswish_by_a_factor": (
        "eltwise_hardswish",
        lambda x: op.multiply(op.multiply(op.clip(op.add(x, number(3)), 0, 6), x), number(1 / 6)),
        hardswish,
    ),
    "hardswish_by_hardsigmoid": (
        "eltwise_hardswish",
        lambda x: op.multiply(op.clip(line(x, 1 / 6, 0.5), 0, 1), x),
        hardswish,
    ),
    "another_hardsigmoid": (
        "eltwise_hardswish",
        lambda x: op.multiply(x, op.clip(line(x, 0.2, 0.5), 0, 1)),
        lambda x: x * np.clip(0.2 * x + 0.5, 0, 1),
    ),
    "quick_gelu": (
        "eltwise_swish",
        lambda x: op.multiply(x, op.sigmoid(op.multiply(x, number(1.702)))),
        lambda x: x / (1 + np.exp(-1.702 * x)),
    ),
    "silu": ("eltwise_swish", lambda x: op.multiply(op.sigmoid(x), x), lambda x: x / (1 + np.exp(-x))),
    "mish": (
        "eltwise_mish",
        lambda x: op.multiply(x, op.tanh(op.log(op.add(number(1), op.exp(x))))),
        mish,
    ),
    "mish_of_pytorch": ("eltwise_mish", lambda x: op.multiply(x, op.tanh(softplus_of_size(x))), mish),
}
"""The function of oneDNN that each becomes, how it is written, and what it is."""

OTHERS: dict[str, Make] = {
    "another_factor": lambda x: op.multiply(x, op.divide(op.clip(op.add(x, number(3)), 0, 6), number(5))),
    "a_lower_bound": lambda x: op.multiply(x, op.clip(op.add(x, number(3)), -1, 6)),
    "gate_of_another_tensor": lambda x: op.multiply(x, op.sigmoid(op.abs(x))),
    "gate_with_a_term": lambda x: op.multiply(x, op.sigmoid(op.add(x, number(1)))),
    "logarithm_of_two_more": lambda x: op.multiply(x, op.tanh(op.log(op.add(number(2), op.exp(x))))),
    "exponential_of_a_multiple": lambda x: op.multiply(
        x, op.tanh(op.log(op.add(number(1), op.exp(op.multiply(x, number(2))))))
    ),
    "not_the_negated_size": lambda x: op.multiply(
        x, op.tanh(op.add(op.nn.relu(x), op.log(op.add(number(1), op.exp(op.abs(x))))))
    ),
}
"""What looks like one of them."""


def graph_of(make: Make) -> Graph:
    x = relax.Var("x", relax.TensorType((3, WIDTH), "float32"))
    function = single([x], make(x))["main"]
    return region_graph(function.with_attr("global_symbol", "main"), ConstantNames())


@pytest.mark.parametrize("name", FORMS)
def test_an_activation_in_parts_is_one_function(name: str) -> None:
    algorithm, make, _ = FORMS[name]
    (node,) = graph_of(make).nodes
    assert node.algorithm == algorithm


@pytest.mark.parametrize("name", FORMS)
def test_a_part_that_is_read_again_stays(name: str) -> None:
    """All parts are computed then; nothing is gained by a function that computes them once more."""
    _, make, _ = FORMS[name]
    kinds = [node.algorithm for node in graph_of(lambda x: with_parts(make(x))).nodes]
    assert FORMS[name][0] not in kinds


def with_parts(product: relax.Expr) -> relax.Expr:
    """A product and all that it is made of."""
    assert isinstance(product, relax.Call)
    return relax.Tuple([product, *(each for each in product.args if isinstance(each, relax.Call))])


@pytest.mark.parametrize("name", OTHERS)
def test_what_looks_alike_stays(name: str) -> None:
    found = {node.algorithm for node in graph_of(OTHERS[name]).nodes}
    assert found.isdisjoint({algorithm for algorithm, _, _ in FORMS.values()})


@needs_onednn
def test_numbers_are_those_of_the_definition_alone_and_behind_a_product() -> None:
    """To two units in the last place of the argument, as by parts."""
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), WIDTH), "float32"))
    values = np.concatenate([np.linspace(-30, 30, 40_000), np.linspace(-4, 4, 40_000)]).astype("float32")
    given = values.reshape(-1, WIDTH)
    product = op.matmul(x, relax.const(np.eye(WIDTH, dtype="float32")))
    makes = [make for _, make, _ in FORMS.values()]
    offloaded = offload(single([x], relax.Tuple([make(each) for each in (x, product) for make in makes])))
    found = offloaded.call("main", given)
    assert len(offloaded.symbols_of("main")) == 1
    for (name, (_, _, exact)), alone, behind in zip(
        FORMS.items(), found[: len(makes)], found[len(makes) :], strict=True
    ):
        expected = exact(given.astype("float64"))
        for answer in (alone, behind):
            error = np.abs(answer - expected) / np.maximum(1, np.abs(given))
            assert error.max() <= 2**-22, name
