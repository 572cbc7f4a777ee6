"""`MatMulNBits`: ONNX Runtime's numbers, and weights that stay as small as they were."""

import numpy as np
import pytest
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, by_tvm, compared, model_of_nodes
from tvm import relax

import annotated_region as ar
from annotated_region.tvm_adapter.nodes import Constant

CLOSE = 2e-4  # sums of some hundred products of numbers up to 15, in another order


def packed_product(bits, rows, columns, size, zeros, bias=False, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    blocks = -(-rows // size)
    x = rng.standard_normal((2, 3, rows)).astype(dtype)
    constants = {
        "w": rng.integers(0, 256, (columns, blocks, size * bits // 8), "uint8"),
        "s": (rng.random(columns * blocks) / 2**bits).astype(dtype),
    }
    if zeros == "bytes":
        constants["z"] = rng.integers(0, 256, columns * -(-blocks * bits // 8), "uint8")
    elif zeros == "floats":
        constants["z"] = (rng.random((columns, blocks)) * 2**bits).astype(dtype)
    if bias:
        constants["b"] = rng.standard_normal(columns).astype(dtype)
    names = f"x w s {'z' if 'z' in constants else '-'} - {'b' if bias else '-'}"
    node = Node("MatMulNBits", names, "y", CONTRIBUTED, K=rows, N=columns, bits=bits, block_size=size)
    return model_of_nodes([node], {"x": x}, constants), {"x": x}


FORMS = [
    (4, 64, 8, 16, "bytes", False),
    (4, 64, 8, 32, None, True),
    (4, 80, 6, 32, "bytes", True),
    (4, 80, 6, 16, "floats", False),
    (8, 64, 8, 16, "bytes", True),
    (8, 40, 6, 32, None, False),
    (2, 64, 8, 32, "bytes", False),
    (2, 80, 8, 32, None, False),
]


@pytest.mark.parametrize(("bits", "rows", "columns", "size", "zeros", "bias"), FORMS)
def test_the_product_is_that_of_onnx_runtime(bits, rows, columns, size, zeros, bias):
    model, inputs = packed_product(bits, rows, columns, size, zeros, bias)
    assert compared(model, inputs) <= [CLOSE]


def test_the_product_of_halves():
    model, inputs = packed_product(4, 64, 8, 32, "bytes", dtype="float16")
    expected = by_onnx_runtime(model, inputs)[0].astype("float32")
    found = by_tvm(ar.from_onnx(model), inputs)[0].astype("float32")
    assert np.abs(found - expected).max() <= 2e-3 * np.abs(expected).max()


def bytes_of_constants(module):
    found = {}

    def add(expr):
        if isinstance(expr, Constant):
            found[expr] = expr.value.numpy().nbytes

    relax.analysis.post_order_visit(module["main"], add)
    return sum(found.values())


@pytest.mark.parametrize("zeros", [None, "bytes"])
def test_preparation_leaves_the_weights_packed(zeros):
    model, _ = packed_product(4, 512, 256, 32, zeros)
    packed = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    # A zero point has a byte of its own.
    packed += 256 * 16 // 2 if zeros else 0
    imported = ar.from_onnx(model)
    assert bytes_of_constants(imported) <= packed + 64
    assert bytes_of_constants(ar.passes.PrepareForInference()(imported)) <= packed + 64


UNPACKED = ["bitwise_and", "right_shift", "bitwise_and", "stack", "reshape"]
FLOATS = ["dequantize", "reshape", "permute_dims", "matmul"]
SHAPES = {
    "4 bits": ((4, 64, 8, 32, None), [*UNPACKED, *FLOATS]),
    "4 bits with zero points": ((4, 64, 8, 32, "bytes"), [*UNPACKED, *FLOATS]),
    "a last block that is not full": (
        (4, 80, 6, 32, "bytes"),
        [*UNPACKED, *FLOATS[:2], "strided_slice", *FLOATS[2:]],
    ),
    "8 bits": ((8, 64, 8, 32, "bytes"), FLOATS),
    "2 bits": ((2, 64, 8, 32, None), [*UNPACKED[:3], *UNPACKED[1:3] * 2, *UNPACKED[3:], *FLOATS]),
    "zero points that are floats": (
        (4, 64, 8, 32, "floats"),
        [*UNPACKED, "astype", "subtract", "multiply", *FLOATS[1:]],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_node_becomes_the_ops_that_patterns_look_for(name):
    form, ops = SHAPES[name]
    model, _ = packed_product(*form)
    for module in (ar.from_onnx(model), ar.passes.PrepareForInference()(ar.from_onnx(model))):
        calls = [
            binding.value
            for block in module["main"].body.blocks
            for binding in block.bindings
            if isinstance(binding.value, relax.Call)
        ]
        assert [call.op.name.removeprefix("relax.") for call in calls] == ops
        parameters = [each for call in calls if call.op.name == "relax.dequantize" for each in call.args[1:]]
        assert all(isinstance(each, Constant) for each in parameters)
