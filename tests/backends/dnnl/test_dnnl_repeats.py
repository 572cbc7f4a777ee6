"""What a region repeats is written once: the tables that are folded, and the runtime that expands them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from kits import family_models
from kits.backends.dnnl.dnnl_harness import ConstantNames, external_functions, needs_onednn
from kits.family_models import inputs_of
from kits.family_sizes import TRANSFORMERS
from kits.hunt.table_interpreter import InterpretedRegion
from kits.onnx_network import Network
from kits.onnx_nodes import by_onnx_runtime
from kits.quantized_models import dynamically_quantized_model
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl import repeats
from annotated_region.backends.dnnl.blocks import LEAST_SAVED, gather, numbered, runs
from annotated_region.backends.dnnl.codegen import region_graph
from annotated_region.backends.dnnl.emission import constants_of, emit_region
from annotated_region.backends.dnnl.graph import Graph, Kind, Node, PostOp, Quantized, Tensor, TensorId
from annotated_region.backends.dnnl.parameters import Arithmetic, Curve, Parameters
from annotated_region.backends.dnnl.repeats import Folded, fold, unfold

SHAPE = (4, 4)
SUM, PRODUCT = Arithmetic("binary_add"), Arithmetic("binary_mul")

# -- runs of equal blocks ------------------------------------------------------------------------------


def most_saved(tokens: list[int]) -> int:
    """The tokens saved by the best run, by trying all."""
    return max(
        (
            (times - 1) * length
            for begin in range(len(tokens))
            for length in range(1, len(tokens) - begin + 1)
            for times in range(1, (len(tokens) - begin) // length + 1)
            if tokens[begin : begin + length] * times == tokens[begin : begin + times * length]
        ),
        default=0,
    )


@given(st.lists(st.integers(0, 2), max_size=24))
def test_runs_repeat_their_blocks_and_leave_no_better_one(tokens: list[int]) -> None:
    found = runs(numbered(tokens))
    for run in found:
        block = tokens[run.first : run.first + run.length]
        assert block * run.times == tokens[run.first : run.end]
    assert all(before.end <= after.first for before, after in pairwise(found))
    best = most_saved(tokens)
    assert max((run.saved for run in found), default=0) == (best if best >= LEAST_SAVED else 0)
    ends = [(0, 0), *((run.first, run.end) for run in found), (len(tokens), len(tokens))]
    between = [tokens[end:begin] for (_, end), (begin, _) in pairwise(ends)]
    assert all(most_saved(stretch) < LEAST_SAVED for stretch in between)


# -- folded graphs -------------------------------------------------------------------------------------


class Chain:
    """A graph of repeated blocks over two inputs and a constant that all blocks read."""

    def __init__(self) -> None:
        self.graph = Graph("chain")
        self.graph.inputs = [self.graph.tensor(SHAPE, source=position) for position in range(2)]
        self.shared = self.constant()
        self.last, self.mask = self.graph.inputs

    def constant(self) -> TensorId:
        return self.graph.tensor(SHAPE, source=f"constant_{len(self.graph.tensors)}")

    def append(self, node: Node) -> TensorId:
        self.last = self.graph.tensor(SHAPE)
        self.graph.nodes.append(replace(node, output=self.last))
        return self.last

    def add(self, kind: Kind, inputs: Sequence[TensorId], parameters: Parameters) -> TensorId:
        return self.append(Node(kind, tuple(inputs), -1, parameters))

    def finished(self) -> Graph:
        """The graph, numbered as those that are emitted."""
        self.graph.outputs = [self.last]
        self.graph.remove_dead_nodes()
        self.graph.compact()
        return self.graph


def folded_of(graph: Graph, names: Sequence[str] = ()) -> Folded:
    """The graph as it is emitted, with constants in the order of `names`; it has to expand to itself."""
    names = names or constants_of(graph)
    folded = fold(graph.tensors, graph.nodes, {name: number for number, name in enumerate(names)})
    assert unfold(folded, names) == (graph.tensors, graph.nodes)
    return folded


def layer(chain: Chain) -> None:
    """Two sums with constants of their own, a product with what all share; the first result is read again."""
    begin = chain.last
    chain.add(Kind.BINARY, (begin, chain.constant()), SUM)
    chain.add(Kind.BINARY, (chain.last, chain.mask), PRODUCT)
    chain.add(Kind.BINARY, (chain.last, chain.constant()), SUM)
    post = PostOp("binary_add", operand=begin)
    chain.append(Node(Kind.BINARY, (chain.shared, chain.last), -1, PRODUCT, (post,)))


def test_a_block_is_kept_once_with_the_arguments_of_each_repetition() -> None:
    chain = Chain()
    chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_tanh"))
    for _ in range(5):
        layer(chain)
    chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_abs"))
    folded = folded_of(chain.finished())
    (repeat,) = folded.repeats
    assert [node.parameters for node in folded.nodes] == [Curve("eltwise_tanh"), Curve("eltwise_abs")]
    assert len(repeat.nodes) == 4
    assert [tensor.source for tensor in repeat.tensors] == [
        "constant_4",
        None,
        None,
        "constant_7",
        None,
        None,
    ]
    assert repeat.step == 2
    # The inputs are 0 and 1, the shared constant 2, and each layer adds six tensors to 3.
    assert repeat.arguments == ((3, 1, 2), (9, 1, 2), (15, 1, 2), (21, 1, 2), (27, 1, 2))


def biased(chain: Chain) -> None:
    """Sums with constants of their own."""
    for _ in range(3):
        chain.add(Kind.BINARY, (chain.last, chain.constant()), SUM)
        chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_tanh"))


@pytest.mark.parametrize("block", [layer, biased], ids=lambda block: block.__name__)
def test_a_region_may_begin_with_a_block(block: Callable[[Chain], None]) -> None:
    chain = Chain()
    for _ in range(3):
        block(chain)
        chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_abs"))
    folded = folded_of(chain.finished())
    assert not folded.nodes
    assert [len(repeat.arguments) for repeat in folded.repeats] == [3]


def test_constants_that_are_not_in_the_order_of_the_nodes_differ_by_a_step_or_are_not_folded() -> None:
    """The constants of a graph without products of int8 are in the order of the graph with them."""
    chain = Chain()
    for _ in range(4):
        biased(chain)
    graph = chain.finished()
    names = constants_of(graph)
    (repeat,) = folded_of(graph, names[::3] + names[1::3] + names[2::3]).repeats
    assert (len(repeat.nodes), repeat.step) == (6, 1)
    assert folded_of(graph, names[1:] + names[:1]).repeats
    folded_of(graph, [*np.random.default_rng(0).permutation(names)])


def test_blocks_that_differ_in_the_sign_of_a_zero_are_not_equal() -> None:
    def folded(shifts: Sequence[float]) -> Folded:
        chain = Chain()
        for shift in shifts:
            for scale in range(1, LEAST_SAVED + 1):
                chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_linear", float(scale), shift))
        return folded_of(chain.finished())

    assert len(folded((0.0, 0.0)).repeats) == 1
    assert not folded((0.0, -0.0)).repeats


Step = tuple[str, str, bool]
OPERANDS = ("last", "begin", "mask", "shared", "own")
STEPS = st.lists(
    st.tuples(st.sampled_from(("sum", "tanh", "bytes")), st.sampled_from(OPERANDS), st.booleans()),
    min_size=1,
    max_size=6,
)


def repeated(chain: Chain, block: Sequence[Step]) -> None:
    begin = chain.last

    def operand(name: str) -> TensorId:
        known = {"last": chain.last, "begin": begin, "mask": chain.mask, "shared": chain.shared}
        return known[name] if name in known else chain.constant()

    for what, name, has_post in block:
        other = operand(name)
        if what == "tanh":
            made = Node(Kind.ELTWISE, (chain.last,), -1, Curve("eltwise_tanh"))
        elif what == "sum":
            made = Node(Kind.BINARY, (chain.last, other), -1, SUM)
        else:
            scales = Quantized(0.5, 0, weights_scales=operand(name), source_zero=chain.shared)
            made = Node(Kind.MATMUL, (chain.last, other), -1, quantized=scales)
        posts = (PostOp("binary_mul", operand=operand(name)),) if has_post else ()
        chain.append(replace(made, post_ops=posts))


@given(st.lists(st.tuples(STEPS, st.integers(1, 5)), min_size=1, max_size=3), st.booleans())
def test_a_folded_graph_expands_to_the_graph(parts: list[tuple[list[Step], int]], late: bool) -> None:
    chain = Chain()
    for block, times in parts:
        for time in range(times):
            repeated(chain, block[: len(block) // 2])
            if late and time == 0:  # for all blocks, but computed in the first
                last = chain.last
                chain.mask = chain.add(Kind.ELTWISE, (chain.mask,), Curve("eltwise_abs"))
                chain.last = last
            repeated(chain, block[len(block) // 2 :])
    graph = chain.finished()
    folded_of(graph)
    before = Counter(repr(node.parameters) for node in graph.nodes)
    gather(graph)
    assert Counter(repr(node.parameters) for node in graph.nodes) == before
    made = set(graph.inputs)
    for node in graph.nodes:
        assert all(graph.tensors[each].is_constant or each in made for each in node.operands)
        made.add(node.output)
    folded_of(graph)


def test_what_the_first_block_computes_for_all_moves_before_it() -> None:
    chain = Chain()
    chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_tanh"))
    for time in range(4):
        chain.add(Kind.BINARY, (chain.last, chain.constant()), SUM)
        chain.add(Kind.ELTWISE, (chain.last,), Curve("eltwise_logistic"))
        if time == 0:
            before = chain.last
            chain.mask = chain.add(Kind.BINARY, (chain.mask, chain.constant()), PRODUCT)
            chain.last = before
        chain.add(Kind.BINARY, (chain.last, chain.mask), SUM)
    graph = chain.finished()
    assert [len(repeat.arguments) for repeat in folded_of(graph).repeats] == [3]
    gather(graph)
    folded = folded_of(graph)
    assert [len(repeat.arguments) for repeat in folded.repeats] == [4]
    assert [node.parameters for node in folded.nodes] == [Curve("eltwise_tanh"), PRODUCT]


# -- the runtime ---------------------------------------------------------------------------------------

WIDTH = 32


def weight(*shape: int, seed: int = 0, dtype: str = "float32") -> relax.Expr:
    numbers = np.random.default_rng([seed, *shape])
    if dtype == "int8":
        return relax.const(numbers.integers(-100, 100, shape).astype(dtype))
    return relax.const((numbers.standard_normal(shape) / shape[0] ** 0.5).astype(dtype))


Layer = Callable[[relax.BlockBuilder, relax.Expr, relax.Expr, int], relax.Expr]


def product_layer(builder: relax.BlockBuilder, x: relax.Expr, mask: relax.Expr, index: int) -> relax.Expr:
    """A product with a bias, a residual sum and a mask that all layers read."""
    product = op.add(op.matmul(x, weight(WIDTH, WIDTH, seed=index)), weight(WIDTH, seed=index))
    return builder.emit(op.add(op.multiply(op.nn.relu(product), mask), x))


def byte_layer(builder: relax.BlockBuilder, x: relax.Expr, mask: relax.Expr, index: int) -> relax.Expr:
    """A product of int8 with a scale for each channel, equal in all layers."""
    scale, zero = relax.const(np.float32(0.03)), relax.const(np.uint8(128))
    scales = relax.const(np.linspace(0.001, 0.002, WIDTH, dtype="float32"))
    zeros = relax.const(np.zeros(WIDTH, "int8"))
    left = op.dequantize(op.quantize(x, scale, zero, 1, "uint8"), scale, zero, 1)
    right = op.dequantize(weight(WIDTH, WIDTH, seed=index, dtype="int8"), scales, zeros, 1)
    return builder.emit(op.add(op.tanh(op.add(op.matmul(left, right), weight(WIDTH, seed=index))), mask))


def relax_network(layer: Layer, rows: tirx.Var | int) -> tvm.IRModule:
    """Five layers between other ops."""
    builder = relax.BlockBuilder()
    x, mask = (relax.Var(name, relax.TensorType((rows, WIDTH), "float32")) for name in ("x", "mask"))
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            value: relax.Expr = builder.emit(op.tanh(x))
            for index in range(5):
                value = layer(builder, value, mask, index)
            result = builder.emit_output(op.sigmoid(value))
        builder.emit_func_output(result)
    return builder.finalize()


def measured_network() -> tvm.IRModule:
    """Five products of bytes, with scales and zero points that each call measures."""
    net = Network("measured")
    x = net.op("Tanh", net.input("x", (5, WIDTH)))
    numbers = np.random.default_rng(7)
    for _ in range(5):
        matrix = numbers.uniform(-0.5, 0.5, (WIDTH, WIDTH)).astype("float32")
        matrix[0, 0] = 0.5
        bias = net.constant(numbers.standard_normal(WIDTH).astype("float32"))
        x = net.op("Tanh", net.op("Add", net.op("MatMul", x, net.constant(matrix)), bias))
    return ar.from_onnx(dynamically_quantized_model(net.model(x, (5, WIDTH))))


NETWORKS: Mapping[str, Callable[[], tvm.IRModule]] = {
    "products": lambda: relax_network(product_layer, 5),
    "products of any rows": lambda: relax_network(product_layer, tirx.Var("rows", "int64")),
    "bytes": lambda: relax_network(byte_layer, 5),
    "measured bytes": measured_network,
}


def answered(function: relax.Function) -> tuple[bytes, str, str]:
    """The answer of a region, its plan and its tables."""
    region = InterpretedRegion(function, ConstantNames(), {})
    numbers = np.random.default_rng(3)
    data = [numbers.standard_normal((5, WIDTH)).astype("float32") for _ in function.params]
    result = tvm.runtime.empty((5, WIDTH), "float32")
    region([tvm.runtime.tensor(array) for array in data], [result])
    found = (result.numpy().tobytes(), region.describe(), emit_region(region.graph, "fp32"))
    region.close()
    return found


@needs_onednn
@pytest.mark.parametrize("name", NETWORKS)
def test_folded_tables_run_as_flat_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ar.partition(NETWORKS[name](), ["dnnl"])
    (symbol,) = external_functions(module)
    *folded, tables = answered(module[symbol])
    monkeypatch.setattr(repeats, "runs", lambda tokens: [])
    *flat, long_tables = answered(module[symbol])
    assert folded == flat
    assert "const RepeatRow repeats[]" in tables
    assert "const RepeatRow repeats[]" not in long_tables


# -- models --------------------------------------------------------------------------------------------


def small_model(name: str, layers: int) -> onnx.ModelProto:
    """A small model of a family, with so many layers."""
    size = replace(TRANSFORMERS[name]["small"], layers=layers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family_models, "TRANSFORMERS", {name: {"small": size}})
        return family_models.family_model(name, "small")


def region_of(name: str, layers: int) -> Graph:
    module = ar.partition(ar.from_onnx(small_model(name, layers)), ["dnnl"])
    (name,) = external_functions(module)
    return region_graph(module[name], ConstantNames())


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_twelve_layers_take_hardly_more_text_than_one(name: str) -> None:
    one, twelve = (len(emit_region(region_of(name, layers), "fp32")) for layers in (1, 12))
    assert twelve <= 1.1 * one


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_tables_of_a_model_expand_to_its_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Folded, list[str]]] = []

    def watched(tensors: list[Tensor], nodes: list[Node], constants: dict[str, int]) -> Folded:
        folded = fold(tensors, nodes, constants)
        assert unfold(folded, list(constants)) == (tensors, nodes)
        seen.append((folded, list(constants)))
        return folded

    monkeypatch.setattr("annotated_region.backends.dnnl.emission.fold", watched)
    emit_region(region_of(name, 5), "fp32")
    assert [len(repeat.arguments) for folded, _ in seen for repeat in folded.repeats] == [5]


@needs_onednn
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_four_layers_answer_as_on_onnx_runtime(name: str) -> None:
    """As libraries, whose constants lie behind their offsets; the other tests of models have two layers."""
    model = small_model(name, 4)
    given = inputs_of(model)
    (expected,) = by_onnx_runtime(model, given)
    machine = relax.VirtualMachine(ar.build(ar.partition(ar.from_onnx(model), ["dnnl"])), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, given.values())).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
