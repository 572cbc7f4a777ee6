"""Weights of 4 bits, and scales by blocks: ONNX Runtime's numbers, and weights that stay packed."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host, run
from kits.onnx_nodes import Node, by_onnx_runtime, by_tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError

RANGES = {"int4": (TensorProto.INT4, -8, 8), "uint4": (TensorProto.UINT4, 0, 16)}
BYTES = {"int8": (TensorProto.INT8, -128, 128), "uint8": (TensorProto.UINT8, 0, 256)}
CLOSE = 1e-5


def constant(name, dtype, shape, seed):
    """A tensor of integers, with their extremes."""
    code, least, end = (RANGES | BYTES)[dtype]
    numbers = np.random.default_rng(seed).integers(least, end, shape)
    if numbers.size > 1:
        numbers.reshape(-1)[:2] = least, end - 1
    return helper.make_tensor(name, code, numbers.shape, numbers.reshape(-1).tolist())


def model_of(nodes, initializers, x_shape, results="y", opset=21, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)] if x_shape else [],
        [helper.make_tensor_value_info(results, kind, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def weighted(dtype, shape, scales, attributes, zeros=True, nodes=None, half=False):
    """Floats of a weight, multiplied by an input; the scales have a shape of their own."""
    factors = (0.01 + 0.1 * np.random.default_rng(3).random(scales)).astype("float16" if half else "float32")
    initializers = [constant("w", dtype, shape, 1), numpy_helper.from_array(np.asarray(factors), "s")]
    if zeros:
        initializers.append(constant("z", dtype, scales, 2))
    unpacking = Node("DequantizeLinear", "w s z" if zeros else "w s", "f", **attributes)
    if nodes is None:
        nodes = [Node("MatMul", "x f", "y")]
        if half:
            nodes = [Node("Cast", "f", "g", to=TensorProto.FLOAT), Node("MatMul", "x g", "y")]
    return model_of([unpacking, *nodes], initializers, [3, shape[0]])


def numbers_for(model):
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(4).standard_normal(shape).astype("float32")}


def assert_as_onnx_runtime(model):
    inputs = numbers_for(model)
    (expected,), (found,) = by_onnx_runtime(model, inputs), by_tvm(ar.from_onnx(model), inputs)
    np.testing.assert_allclose(found, expected, CLOSE, CLOSE * np.abs(expected).max())


WAYS = {
    "one scale": ((64, 6), (), {}),
    "a scale for each column": ((64, 6), (6,), {"axis": 1}),
    "a scale for each row": ((6, 64), (6,), {"axis": 0}),
    "blocks of columns": ((64, 6), (2, 6), {"axis": 0, "block_size": 32}),
    "blocks from the end": ((64, 6), (4, 6), {"axis": -2, "block_size": 16}),
    "blocks of rows": ((6, 64), (6, 4), {"axis": 1, "block_size": 16}),
    "small blocks": ((64, 6), (16, 6), {"axis": 0, "block_size": 4}),
    "a last block that is not full": ((40, 6), (2, 6), {"axis": 0, "block_size": 32}),
}


@pytest.mark.sweep
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", [*RANGES, *BYTES])
@pytest.mark.parametrize("way", WAYS)
def test_weights_are_those_of_onnx_runtime(way, dtype, zeros):
    assert_as_onnx_runtime(weighted(dtype, *WAYS[way], zeros))


def test_scales_of_halves_make_halves():
    assert_as_onnx_runtime(weighted("int4", *WAYS["blocks of columns"], half=True))
    assert_as_onnx_runtime(weighted("uint4", *WAYS["small blocks"], half=True))


def test_blocks_of_a_kernel():
    """Of more axes than a matrix."""
    nodes = [Node("Flatten", "f", "g", axis=1), Node("MatMul", "x g", "y")]
    shape, scales = (4, 6, 3, 2), (4, 2, 3, 2)
    assert_as_onnx_runtime(weighted("int4", shape, scales, {"axis": 1, "block_size": 3}, nodes=nodes))


def test_a_weight_that_is_moved_before_it_is_read():
    nodes = [
        Node("Transpose", "w", "t", perm=[1, 0]),
        Node("DequantizeLinear", "t s", "f", axis=1),
        Node("MatMul", "x f", "y"),
    ]
    scales = numpy_helper.from_array(np.linspace(0.1, 0.2, 6, dtype="float32"), "s")
    assert_as_onnx_runtime(model_of(nodes, [constant("w", "int4", (6, 16), 1), scales], [3, 16]))


def test_a_value_of_a_constant_node():
    value = constant("", "uint4", (16, 6), 5)
    nodes = [
        Node("Constant", "", "w", value=value),
        Node("DequantizeLinear", "w s", "f"),
        Node("MatMul", "x f", "y"),
    ]
    del nodes[0].input[:]
    model = model_of(nodes, [numpy_helper.from_array(np.float32(0.1), "s")], [3, 16])
    assert_as_onnx_runtime(model)


PACKED = {
    "blocks": ((64, 32), (2, 32), {"axis": 0, "block_size": 32}, None),
    "columns": ((64, 32), (32,), {"axis": 1}, None),
    "a matrix that is turned": (
        (32, 64),
        (32, 2),
        {"axis": 1, "block_size": 32},
        [Node("Transpose", "f", "g", perm=[1, 0]), Node("MatMul", "x g", "y")],
    ),
}


@needs_onednn
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("name", PACKED)
def test_a_product_with_weights_of_4_bits_is_that_of_packed_ones_on_dnnl(name, dtype, zeros):
    shape, scales, attributes, nodes = PACKED[name]
    model = weighted(dtype, shape, scales, attributes, zeros, nodes)
    if nodes is not None:
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64]))
    module = ar.partition(ar.from_onnx(model), ["dnnl"])
    (region,) = external_functions(module)
    assert not ops_on_host(module)
    assert "dnnl.quantized_matmul" in module[region].script(show_meta=False)
    inputs = numbers_for(model)
    (expected,) = by_onnx_runtime(model, inputs)
    (found,) = run(relax.VirtualMachine(ar.build(module).jit(), tvm.cpu()), "main", list(inputs.values()))
    np.testing.assert_allclose(found, expected, 2e-3, 2e-3 * np.abs(expected).max())


def refused(model):
    with pytest.raises(ModelError) as caught:
        ar.from_onnx(model)
    return str(caught.value)


def test_nodes_that_compute_with_4_bits_are_refused_by_name():
    weight = constant("w", "int4", (4, 3), 1)
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    added = model_of([Node("Add", "w w", "a"), Node("DequantizeLinear", "a s", "y")], [weight, scale], None)
    assert "node 'Add_of_a' (Add) reads or makes integers of 4 bits" in refused(added)
    zero = constant("z", "int4", (), 1)
    narrowed = model_of(
        [Node("QuantizeLinear", "x s z", "q"), Node("DequantizeLinear", "q s z", "y")], [scale, zero], [4, 3]
    )
    assert "node 'QuantizeLinear_of_q' (QuantizeLinear) reads or makes" in refused(narrowed)
    cast = model_of(
        [Node("Cast", "x", "q", to=TensorProto.INT4), Node("Cast", "q", "y", to=TensorProto.FLOAT)], [], [4]
    )
    assert "node 'Cast_of_q' (Cast) reads or makes" in refused(cast)


def test_a_result_of_4_bits_is_refused_by_name():
    model = model_of(
        [Node("Identity", "w", "y")], [constant("w", "int4", (4,), 1)], None, kind=TensorProto.INT4
    )
    assert "'y', an input or a result, has integers of 4 bits" in refused(model)


@pytest.mark.parametrize(
    ("scales", "zeros", "attributes"),
    [((2, 6), (6, 2), {"axis": 0, "block_size": 32}), ((6,), (1, 6), {"axis": 1}), ((6,), (3,), {"axis": 1})],
    ids=str,
)
def test_zero_points_of_another_shape_than_the_scales_are_refused_by_name(scales, zeros, attributes):
    model = weighted("uint4", (64, 6), scales, attributes, zeros=False)
    model.graph.initializer.append(constant("z", "uint4", zeros, 2))
    model.graph.node[0].input.append("z")
    with pytest.raises(ModelError, match="DequantizeLinear"):
        ar.from_onnx(model)
