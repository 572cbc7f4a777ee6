"""Products of one operand with several weights run as one, where that pays, and compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, run
from kits.host_machines import host_machine
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.dnnl import codegen
from annotated_region.backends.dnnl.emission import constants_of
from annotated_region.backends.dnnl.graph import Graph, Kind, Node, Part, PostOp
from annotated_region.backends.dnnl.parameters import Begins, Curve, Permutation, linear
from annotated_region.backends.dnnl.rewriting.pipeline import JOINS, rewrite

DEPTH, LENGTH, HEADS, HEAD = 24, 5, 2, 8
WIDTH = HEADS * HEAD


@cache
def weight(seed: int, *shape: int) -> relax.Expr:
    return relax.const(np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.2)


def product(
    x: relax.Expr, seed: int, width: int = WIDTH, bias: bool = True, turned: bool = False
) -> relax.Expr:
    matrix = op.permute_dims(weight(seed, width, DEPTH)) if turned else weight(seed, DEPTH, width)
    result = op.matmul(x, matrix)
    return op.add(result, weight(seed + 100, width)) if bias else result


def heads(value: relax.Expr, batch: Any, axes: tuple[int, ...] = (0, 2, 1, 3)) -> relax.Expr:
    return op.permute_dims(op.reshape(value, (batch, LENGTH, HEADS, HEAD)), list(axes))


def attended(values: Iterable[relax.Expr], batch: Any) -> relax.Expr:
    q, k, v = values
    scores = op.matmul(heads(q, batch), heads(k, batch, (0, 2, 3, 1)))
    weights = op.nn.softmax(op.multiply(scores, relax.const(HEAD**-0.5, "float32")))
    mixed = op.permute_dims(op.matmul(weights, heads(v, batch)), [0, 2, 1, 3])
    return op.reshape(mixed, (batch, LENGTH, WIDTH))


def crossed(a: relax.Expr, b: relax.Expr, c: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Each value is read by products alone."""
    return op.matmul(op.permute_dims(a, [0, 2, 1]), b), op.matmul(op.permute_dims(b, [0, 2, 1]), c)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of two inputs, and how many products its plan runs."""

    make: Callable[[relax.Expr, relax.Expr, Any], Any]
    products: int
    dynamic: bool = False


def _shared(x: relax.Expr, y: relax.Expr, batch: Any) -> Any:
    first, second = ([product(value, seed) for seed in (1, 2, 3)] for value in (x, y))
    return attended(first, batch), attended(second, batch)


def _weight_read_elsewhere(x: relax.Expr, y: relax.Expr, batch: Any) -> Any:
    return attended((product(x, seed) for seed in (1, 2, 3)), batch), product(y, 1)


CASES = {
    "bias": Case(lambda x, _, b: attended((product(x, seed) for seed in (1, 2, 3)), b), 1),
    "any_batch": Case(lambda x, _, b: attended((product(x, seed) for seed in (1, 2, 3)), b), 1, dynamic=True),
    "no_bias": Case(lambda x, _, b: attended((product(x, seed, bias=False) for seed in (1, 2, 3)), b), 1),
    "one_without_bias": Case(
        lambda x, _, b: attended((product(x, 1), product(x, 2, bias=False), product(x, 3)), b), 1
    ),
    "turned_weights": Case(
        lambda x, _, b: attended((product(x, seed, turned=seed > 1) for seed in (1, 2, 3)), b), 1
    ),
    "widths": Case(lambda x, _, b: crossed(product(x, 1, 8), product(x, 2, 12), product(x, 3, 4)), 3),
    "two_operands": Case(lambda x, y, b: attended((product(x, 1), product(y, 2), product(y, 3)), b), 2),
    "result_leaves": Case(
        lambda x, _, b: (attended((product(x, s) for s in (1, 2, 3)), b), product(x, 4), product(x, 5)), 3
    ),
    "results_are_copied": Case(lambda x, _, b: op.multiply(product(x, 1), op.exp(product(x, 2))), 2),
    "weights_shared": Case(_shared, 2),
    "weight_read_elsewhere": Case(_weight_read_elsewhere, 3),
}
"""``widths`` has two products behind the joined one."""


@cache
def module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    for name, case in CASES.items():
        batch = tirx.Var("batch", "int64") if case.dynamic else 2
        x, y = (relax.Var(each, relax.TensorType((batch, LENGTH, DEPTH), "float32")) for each in "xy")
        with builder.function(name, [x, y]):
            with builder.dataflow():
                made = case.make(x, y, batch)
                result = relax.Tuple(made) if isinstance(made, tuple) else made
                output = builder.emit_output(builder.normalize(result))
            builder.emit_func_output(output)
    return builder.finalize()


@cache
def on_onednn() -> Offloaded:
    return offload(module())


@cache
def on_host() -> relax.VirtualMachine:
    return host_machine(module())


def compared(machine: Callable[..., list[np.ndarray]], name: str, batch: int) -> None:
    generator = np.random.default_rng(batch)
    inputs = [generator.standard_normal((batch, LENGTH, DEPTH)).astype("float32") for _ in range(2)]
    found, expected = machine(name, *inputs), run(on_host(), name, inputs)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("name", CASES)
def test_joined_products_compute_what_tvm_does(name: str) -> None:
    for batch in (2, 1, 7) if CASES[name].dynamic else (2,):
        compared(on_onednn().call, name, batch)
    symbols = on_onednn().symbols_of(name)
    plan = [line for symbol in symbols for line in on_onednn().plan(symbol)]
    assert sum(line.startswith("matmul") for line in plan) == CASES[name].products
    assert not any(line.startswith("reorder") for line in plan)


@needs_onednn
def test_without_a_compiler_for_constants_nothing_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM hands over its own constants alone."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(each, relax.TensorType((2, LENGTH, DEPTH), "float32")) for each in "xy")
    with builder.function("bias", [x, y]):
        with builder.dataflow():
            output = builder.emit_output(CASES["bias"].make(x, y, 2))
        builder.emit_func_output(output)
    monkeypatch.setattr(codegen, "embed", lambda *_: None)
    alone = offload(builder.finalize())
    compared(alone.call, "bias", 2)
    (symbol,) = alone.symbols_of("bias")
    assert sum(line.startswith("matmul") for line in alone.plan(symbol)) == 3


class _Names(dict[object, str]):
    def __missing__(self, constant: object) -> str:
        self[constant] = f"const_{len(self)}"
        return self[constant]


def test_weights_are_held_once() -> None:
    """The joined ones take the place of those they were made of, and serve all that share them."""

    def floats(name: str) -> int:
        function = module()[name].with_attr("global_symbol", name)
        graph = codegen.region_graph(function, _Names())
        shapes = [tensor.shape for tensor in graph.tensors if tensor.is_constant]
        assert len(constants_of(graph)) == len(shapes)
        return sum(int(np.prod(shape)) for shape in shapes)

    each = (DEPTH + 1) * WIDTH
    assert floats("bias") <= 3 * each + 1  # and the factor of the scores
    assert floats("turned_weights") <= 3 * each + 1


# --- any graph, against a reading of it by numpy


@dataclass(frozen=True, slots=True)
class Wish:
    """A product: of which input, by which weight, with what behind it."""

    left: int
    weight: int
    turned: bool
    bias: bool
    reader: str  # attention, copy, output, chain
    viewed: bool


WISHES = st.lists(
    st.builds(
        Wish,
        st.integers(0, 1),
        st.integers(0, 4),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["product", "product", "product", "copy", "output", "chain"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
)
WIDTHS = (3, 4, 6, 4, 2)


def graph_of(wishes: list[Wish]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Products of two rows of three numbers, stacked or not."""
    graph, values = Graph("any"), {}
    rng = np.random.default_rng(0)
    graph.inputs = [graph.tensor((1, 2, 3), source=position) for position in range(2)]
    constants: dict[str, int] = {}

    def constant(name: str, *shape: int) -> int:
        if name not in constants:
            constants[name] = graph.tensor(shape, source=name)
            values[name] = rng.integers(-4, 5, shape).astype("float32")
        return constants[name]

    for wish in wishes:
        width = WIDTHS[wish.weight]
        left = graph.add(Kind.RESHAPE, (graph.inputs[wish.left],), (2, 3))
        if wish.turned:
            stored = constant(f"turned_{wish.weight}", width, 3)
            right = graph.add(Kind.PERMUTE, (stored,), (3, width), Permutation((1, 0)))
        else:
            right = constant(f"weight_{wish.weight}", 3, width)
        inputs = [left, right]
        if wish.bias:
            inputs.append(graph.add(Kind.RESHAPE, (constant(f"bias_{wish.weight}", width),), (1, width)))
        result = graph.add(Kind.MATMUL, inputs, (2, width))
        if wish.reader == "chain":
            node = graph.nodes.pop()
            graph.nodes.append(
                Node(node.kind, node.inputs, node.output, post_ops=(PostOp("eltwise_linear", 2.0),))
            )
        if wish.viewed:
            result = graph.add(Kind.RESHAPE, (result,), (1, 2, width))
        if wish.reader in ("product", "chain"):
            turned = (0, 2, 1) if wish.viewed else (1, 0)
            shape = tuple(graph.shape(result)[axis] for axis in turned)
            across = graph.add(Kind.PERMUTE, (result,), shape, Permutation(turned))
            result = graph.add(Kind.MATMUL, (across, result), (*shape[:-1], width))
        if wish.reader == "copy":
            result = graph.add(Kind.ELTWISE, (result,), graph.shape(result), linear(3.0, 1.0))
        graph.outputs.append(result)
    return graph, values


def computed(graph: Graph, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The results of a graph on numbers that float32 adds without error."""
    known: dict[int, np.ndarray] = {}
    rng = np.random.default_rng(1)
    for tensor in graph.inputs:
        known[tensor] = rng.integers(-4, 5, graph.shape(tensor)).astype("float32")
    for index, each in enumerate(graph.tensors):
        if isinstance(each.source, str):
            joined = graph.joined.get(each.source)
            known[index] = values[each.source] if joined is None else joined.value(values.__getitem__)
            assert known[index].shape == each.shape
    for node in graph.nodes:
        known[node.output] = _result(node, [known[each] for each in node.inputs], graph.shape(node.output))
    return [known[tensor] for tensor in graph.outputs]


def _result(node: Node, inputs: list[np.ndarray], shape: tuple[Any, ...]) -> Any:
    if node.kind is Kind.RESHAPE:
        return inputs[0].reshape(shape)
    parameters = node.parameters
    if isinstance(parameters, Permutation):
        return inputs[0].transpose(parameters.axes)
    if isinstance(parameters, Begins):
        begins = parameters.begins
        return inputs[0][tuple(slice(b, b + extent) for b, extent in zip(begins, shape, strict=True))]
    if isinstance(parameters, Curve):
        return inputs[0] * np.float32(parameters.alpha) + np.float32(parameters.beta)
    assert node.kind is Kind.MATMUL
    result = inputs[0] @ inputs[1] + (inputs[2] if len(inputs) > 2 else np.float32(0))
    for post in node.post_ops:
        result = result * np.float32(post.alpha)
    return result


def weights_held(graph: Graph) -> list[str]:
    """The weights that the constants of a graph consist of."""
    sources = [tensor.source for tensor in graph.tensors if isinstance(tensor.source, str)]
    parts = [graph.joined[name].parts if name in graph.joined else (Part(name, (), 1),) for name in sources]
    names = [part.name for each in parts for part in each if part.name is not None]
    return [name for name in names if not name.startswith("bias")]


@given(WISHES)
def test_any_products_are_joined_without_changing_a_number(wishes: list[Wish]) -> None:
    graph, values = graph_of(wishes)
    before = computed(graph, values)
    count = sum(node.kind is Kind.MATMUL for node in graph.nodes)
    rewrite(graph, JOINS)
    after = computed(graph, values)
    assert all(np.array_equal(left, right) for left, right in zip(before, after, strict=True))
    assert sum(node.kind is Kind.MATMUL for node in graph.nodes) <= count
    held = weights_held(graph)
    assert len(set(held)) == len(held)
    if {wish.reader for wish in wishes} == {"product"} and len({wish.left for wish in wishes}) == 1:
        alone = {(wish.weight, wish.turned) for wish in wishes}
        assert graph.joined or len(alone) < len(wishes) or len(wishes) == 1
