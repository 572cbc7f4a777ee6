"""Weights of 4 and 8 bits: they stay packed, and products with them are those of their floats."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import ConstantNames, needs_onednn, offload, run
from kits.backends.dnnl.packed_samples import SAMPLES, Sample, compiled, has_whole_numbers, pointer
from kits.host_machines import host_machine
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, model_of_nodes
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl.codegen import region_graph
from annotated_region.backends.dnnl.graph import Kind
from annotated_region.backends.dnnl.quantized_product import read_product
from annotated_region.targets.translation import Declined


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("packed_weights"))


LEVELS = {"least": 0, "avx2": 1, "avx512": 2}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_instruction_set_multiplies_and_unpacks(library, sample, level):
    if LEVELS[level] > library.best():
        pytest.skip(f"the processor has no {level}")
    weight = Sample(*sample)
    stored, given = weight.bytes(), weight.described()
    depth, columns = weight.floats.shape
    bias = np.linspace(-1, 1, columns, dtype="float32")
    unpacked = np.empty((depth, columns), "float32")
    library.unpack(given, LEVELS[level], pointer(stored), pointer(unpacked))
    np.testing.assert_array_equal(unpacked, weight.floats)
    for rows in (1, 2, 3, 7):
        data = np.zeros((rows, weight.stored.groups * weight.stored.stored_group), "float32")
        data[:, :depth] = np.random.default_rng(rows).standard_normal((rows, depth), "float32")
        found = np.empty((rows, columns), "float32")
        arguments = (pointer(stored), pointer(data), ctypes.c_int64(rows), pointer(bias), pointer(found))
        library.multiply(given, LEVELS[level], *arguments)
        expected = data[:, :depth].astype("float64") @ weight.floats + bias
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


def product(weight: np.ndarray, follow: bool = True, dtype: str = "float32") -> tvm.IRModule:
    """``relu(x @ weight + bias) + x0``, of any number of rows."""
    rows = tvm.tirx.Var("rows", "int64")
    depth, columns = weight.shape
    x = relax.Var("x", relax.TensorType((rows, depth), dtype))
    other = relax.Var("other", relax.TensorType((rows, columns), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, other]):
        with builder.dataflow():
            result = builder.emit(op.matmul(x, relax.const(weight.astype(dtype))))
            if follow:
                bias = relax.const(np.linspace(-1, 1, columns).astype(dtype))
                result = builder.emit(op.nn.relu(builder.emit(op.add(result, bias))))
            output = builder.emit_output(op.add(result, other))
        builder.emit_func_output(output)
    return builder.finalize()


def random_weight(depth: int, columns: int, seed: int = 0) -> np.ndarray:
    numbers: np.ndarray = np.random.default_rng(seed).standard_normal((depth, columns), "float32")
    return numbers


def data_for(rows: int, weight: np.ndarray, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.standard_normal((rows, extent)).astype(dtype) for extent in weight.shape]


def floats_of(module: tvm.IRModule) -> np.ndarray:
    """The weight of the product in a module, as the host makes it of what is packed."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            for binding in module["main"].body.blocks[0].bindings:
                if isinstance(binding.value, relax.Call) and binding.value.op.name == "relax.matmul":
                    output = builder.emit_output(binding.value.args[1])
                    break
                builder.emit_normalized(binding)
        builder.emit_func_output(output)
    machine = host_machine(builder.finalize())
    found: np.ndarray = machine["main"]().numpy()
    return found


FORMS = [
    (4, 32, False, (256, 200)),
    (4, 32, True, (256, 200)),
    (4, None, True, (33, 70)),
    (4, None, False, (300, 70)),
    (8, 128, False, (256, 130)),
    (8, 24, True, (72, 64)),
]


@needs_onednn
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_products_of_any_number_of_rows_are_those_of_the_floats(form):
    bits, group, zero_points, extents = form
    weight = random_weight(*extents)
    module = ar.passes.QuantizeWeights(bits, group, zero_points)(product(weight))
    offloaded = offload(module)
    (symbol,) = offloaded.symbols_of("main")
    floats = floats_of(module).astype("float64")
    for rows in (1, 3, 16, 17, 40):
        x, other = data_for(rows, weight)
        expected = np.maximum(x @ floats + np.linspace(-1, 1, extents[1]), 0) + other
        (found,) = offloaded.call("main", x, other)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        plan = "\n".join(offloaded.plan(symbol))
        is_short = (group or extents[0]) <= 256
        wide = "many rows of" if is_short and has_whole_numbers() else "unpack of"
        assert ("few rows of" if rows <= 16 else wide) in plan


@needs_onednn
def test_many_rows_take_no_slow_implementation():
    """Two million floats are a panel, so this weight has two, the second of another width."""
    weight = random_weight(4096, 600)
    module = ar.passes.QuantizeWeights(8, 512)(product(weight))  # groups too long for whole numbers
    offloaded = offload(module)
    (symbol,) = offloaded.symbols_of("main")
    x, other = data_for(20, weight)
    expected = np.maximum(x @ floats_of(module).astype("float64") + np.linspace(-1, 1, 600), 0) + other
    for rows in (20, 1):
        (found,) = offloaded.call("main", x[:rows], other[:rows])
        np.testing.assert_allclose(found, expected[:rows], rtol=1e-3, atol=1e-3)
        plan = "\n".join(offloaded.plan(symbol))
        assert "ref:" not in plan
        assert plan.count("unpack") == (2 if rows == 20 else 0)


@needs_onednn
def test_infinite_rows_are_what_the_host_makes_of_them():
    weight = random_weight(64, 64)
    module = ar.passes.QuantizeWeights(4, 32, zero_points=True)(product(weight, follow=False))
    x, other = data_for(2, weight)
    x[0, 5], x[1, 7] = np.inf, np.nan
    alone, offloaded = host_machine(module), offload(module)
    for rows in (1, 2):
        given = [x[:rows], other[:rows]]
        (found,), (expected,) = offloaded.call("main", *given), run(alone, "main", given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def products(weights: list[np.ndarray]) -> tvm.IRModule:
    """``x @ weight + bias`` for each weight, the second without a bias; then ``x`` itself, negated."""
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("rows", "int64"), len(weights[0])), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            results = []
            for index, weight in enumerate(weights):
                result = builder.emit(op.matmul(x, relax.const(weight)))
                bias = relax.const(np.full(weight.shape[1], index, "float32"))
                results.append(builder.emit(op.add(result, bias) if index != 1 else op.nn.relu(result)))
            outputs = [builder.emit_output(each) for each in (*results, op.negative(x))]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


@needs_onednn
@pytest.mark.parametrize("bits", [4, 8])
def test_products_of_the_same_few_rows_are_one_step(bits):
    weights = [random_weight(96, columns, columns) for columns in (200, 64, 1)]
    given = products(weights)
    module = ar.passes.QuantizeWeights(bits, 32)(given)
    alone, offloaded = host_machine(module), offload(module)
    (symbol,) = offloaded.symbols_of("main")
    for rows in (1, 3, 17, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 96), "float32")
        found, expected = offloaded.call("main", x), run(alone, "main", [x])
        for each, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(each, other, rtol=1e-4, atol=1e-4)
        steps = [line for line in offloaded.plan(symbol) if " rows of int" in line]
        many = ["many rows"] if has_whole_numbers() else []
        words = many if rows > 16 else ["few rows"]
        assert steps == [f"{each} of int{bits} in groups of 32 times 3" for each in words]


@needs_onednn
def test_products_with_groups_of_other_sizes_are_steps_of_their_own():
    rng = np.random.default_rng(0)
    constants = {}
    for name, size in (("a", 16), ("b", 32)):
        constants[f"w{name}"] = rng.integers(0, 256, (24, 64 // size, size // 2), "uint8")
        constants[f"s{name}"] = rng.random(24 * 64 // size, "float32")
    sizes = {"K": 64, "N": 24, "bits": 4}
    nodes = [
        Node("MatMulNBits", f"x w{name} s{name}", f"y{name}", CONTRIBUTED, **sizes, block_size=size)
        for name, size in (("a", 16), ("b", 32))
    ]
    x = rng.standard_normal((1, 64)).astype("float32")
    model = model_of_nodes(nodes, {"x": x}, constants, "ya yb")
    offloaded = offload(ar.passes.PrepareForInference()(ar.from_onnx(model)))
    (symbol,) = offloaded.symbols_of("main")
    for found, expected in zip(offloaded.call("main", x), by_onnx_runtime(model, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)
    steps = [line for line in offloaded.plan(symbol) if line.startswith("few rows")]
    assert steps == [f"few rows of int4 in groups of {size}" for size in (16, 32)]


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("halves", ["", "a", "b", "ab"])
def test_products_with_and_without_zero_points_and_with_other_scales_are_one_step(rows, halves):
    rng = np.random.default_rng(0)
    held = {name: "float16" if name in halves else "float32" for name in "ab"}
    constants = {
        **{f"w{name}": rng.integers(0, 256, (24, 2, 16), "uint8") for name in "ab"},
        **{f"s{name}": rng.random(48, "float32").astype(held[name]).astype("float32") for name in "ab"},
        "zb": rng.integers(0, 256, 24, "uint8"),
    }
    sizes = {"K": 64, "N": 24, "bits": 4, "block_size": 32}
    nodes = [
        Node("MatMulNBits", "x wa sa", "ya", CONTRIBUTED, **sizes),
        Node("MatMulNBits", "x wb sb zb", "yb", CONTRIBUTED, **sizes),
    ]
    x = rng.standard_normal((rows, 64)).astype("float32")
    model = model_of_nodes(nodes, {"x": x}, constants, "ya yb")
    offloaded = offload(ar.passes.PrepareForInference()(ar.from_onnx(model)))
    for found, expected in zip(offloaded.call("main", x), by_onnx_runtime(model, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)
    if rows <= 16 or has_whole_numbers():
        (symbol,) = offloaded.symbols_of("main")
        (step,) = (line for line in offloaded.plan(symbol) if " rows of int" in line)
        assert step.endswith("rows of int4 in groups of 32 times 2")


@needs_onednn
def test_halves_are_multiplied_as_float32():
    weight = random_weight(64, 48)
    module = ar.passes.QuantizeWeights(4, 32)(product(weight, dtype="float16"))
    x, other = data_for(3, weight, "float16")
    floats = floats_of(module).astype("float64")
    expected = np.maximum(x @ floats + np.linspace(-1, 1, 48), 0) + other
    (found,) = offload(module).call("main", x, other)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-2)


ONNX_FORMS = [
    (4, 64, 8, 32, None, 5),
    (4, 32, 8, 32, None, 5),  # one block for each column
    (4, 20, 6, 32, "bytes", 5),
    (4, 80, 70, 32, "bytes", 5),
    (4, 80, 70, 32, "bytes", 20),
    (4, 96, 6, 32, "floats", 5),
    (8, 40, 6, 16, "bytes", 5),
    (8, 40, 6, 16, "bytes", 300),
    (8, 64, 6, 32, None, 5),
]


@needs_onednn
@pytest.mark.parametrize("form", ONNX_FORMS, ids=str)
def test_an_imported_product_is_that_of_onnx_runtime(form):
    bits, depth, columns, size, zeros, rows = form
    rng = np.random.default_rng(0)
    blocks = -(-depth // size)
    x = rng.standard_normal((rows, depth)).astype("float32")
    constants = {
        "w": rng.integers(0, 256, (columns, blocks, size * bits // 8), "uint8"),
        "s": (rng.random(columns * blocks) / 2**bits).astype("float32"),
        "b": rng.standard_normal(columns).astype("float32"),
    }
    if zeros == "bytes":
        constants["z"] = rng.integers(0, 256, columns * -(-blocks * bits // 8), "uint8")
    elif zeros == "floats":
        constants["z"] = (rng.random((columns, blocks)) * 2**bits).astype("float32")
    names = f"x w s {'z' if zeros else '-'} - b"
    node = Node("MatMulNBits", names, "y", CONTRIBUTED, K=depth, N=columns, bits=bits, block_size=size)
    model = model_of_nodes([node], {"x": x}, constants)
    offloaded = offload(ar.passes.PrepareForInference()(ar.from_onnx(model)))
    (symbol,) = offloaded.symbols_of("main")
    (found,), (expected,) = offloaded.call("main", x), by_onnx_runtime(model, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-4)
    if rows > 16 and not has_whole_numbers():
        return
    count = "few" if rows <= 16 else "many"
    assert [line.split(" in ")[0] for line in offloaded.plan(symbol)] == [f"{count} rows of int{bits}"]


def composite_of(module: tvm.IRModule) -> list[str]:
    partitioned = ar.partition(module, ["dnnl"], prepare=False)
    found: list[str] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Function) and expr.attrs and "Composite" in expr.attrs:
            found.append(str(expr.attrs["Composite"]))

    for function in partitioned.functions.values():
        relax.analysis.post_order_visit(function, visit)
    return found


def test_the_whole_product_is_one_composite():
    module = ar.passes.QuantizeWeights(4, 32)(product(random_weight(64, 48), follow=False))
    assert composite_of(module) == ["dnnl.quantized_matmul"]
    assert "host: nothing" in str(ar.explain(module, ["dnnl"], prepare=False))


Values = dict[relax.Var, relax.Expr]


def quantized(bits: int, group: int | None, weight: np.ndarray) -> tuple[relax.Call, Values]:
    """The product of a quantized weight, and what its variables are bound to."""
    module = ar.passes.QuantizeWeights(bits, group)(product(weight, follow=False))
    values = {binding.var: binding.value for binding in module["main"].body.blocks[0].bindings}
    calls = (value for value in values.values() if isinstance(value, relax.Call))
    return next(call for call in calls if call.op.name == "relax.matmul"), values


def with_constant(values: Values, number: int, array: np.ndarray) -> None:
    """Put another constant in the place of one of the arguments of `dequantize`."""
    dequantize = tvm.ir.Op.get("relax.dequantize")
    (var,) = (var for var, value in values.items() if getattr(value, "op", None) == dequantize)
    call = values[var]
    arguments = [*call.args[:number], relax.const(array), *call.args[number + 1 :]]
    values[var] = relax.BlockBuilder().normalize(relax.Call(call.op, arguments, call.attrs))


def test_groups_that_are_no_whole_words_are_declined():
    call, values = quantized(4, 12, random_weight(48, 48))
    with pytest.raises(Declined, match="groups of 12 weights do not fill whole words"):
        read_product(call, values)
    module = ar.passes.QuantizeWeights(4, 12)(product(random_weight(48, 48)))
    assert "dnnl.quantized_matmul" not in composite_of(module)


def test_scales_that_are_not_finite_are_declined():
    call, values = quantized(8, 16, random_weight(32, 2))
    assert read_product(call, values).group == 16
    with_constant(values, 1, np.array([1, 2, np.inf, 3], "float32"))
    with pytest.raises(Declined, match="a scale is not a finite float"):
        read_product(call, values)


def test_weights_that_are_not_constant_are_declined():
    call, values = quantized(8, 16, random_weight(32, 2))
    with pytest.raises(Declined, match=r"there is no relax.permute_dims"):
        read_product(call, {})
    with_constant(values, 2, np.zeros(4, "int32"))
    with pytest.raises(Declined, match="a zero point is not a byte"):
        read_product(call, values)


def test_a_graph_holds_the_weight_once_and_packed():
    module = ar.partition(
        ar.passes.QuantizeWeights(4, 32, True)(product(random_weight(64, 100))), ["dnnl"], prepare=False
    )
    (function,) = (each for each in module.functions.values() if each.attrs and "Codegen" in each.attrs)
    graph = region_graph(function.with_attr("global_symbol", "region"), ConstantNames())
    (node,) = (node for node in graph.nodes if node.kind is Kind.PACKED_PRODUCT)
    assert len(node.inputs) == 3  # with the bias
    stored = graph.tensors[node.inputs[1]]
    # Two tiles of 64 columns, two groups each: 32 weights of half a byte, a scale and a zero point of two.
    assert stored.shape == (2 * 64 * 2 * (16 + 2 + 2),)
