"""What computes with known numbers alone is folded to what ONNX Runtime computes; the rest is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from kits.importing.node_cases import cases_by_name
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from onnx import numpy_helper
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.functions.modules import require_well_formed
from annotated_region.importing.onnx_models.converters.folding import folded
from annotated_region.tvm_adapter.nodes import Constant

OPSET = 17
WHOLE = np.array([[7, -7, 0], [-2, 5, 3]], "int64")
OTHER = np.array([[2, 2, -3], [-1, -5, 4]], "int64")
FLOATS = np.array([[1.5, -2.5, 0.25], [3.0, 0.0, 7.0]], "float32")
TRUTH = np.array([[True, False, True], [False, False, True]])

FOLDED: list[tuple[onnx.NodeProto, list[Any]]] = [
    *((Node(op, "a b"), [WHOLE, OTHER]) for op in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max")),
    (Node("Mod", "a b", fmod=1), [WHOLE, OTHER]),
    *((Node(op, "a b"), [WHOLE, OTHER]) for op in ("Equal", "Less", "LessOrEqual")),
    *((Node(op, "a b"), [WHOLE, OTHER]) for op in ("Greater", "GreaterOrEqual")),
    *((Node(op, "a b"), [TRUTH, ~TRUTH[0]]) for op in ("And", "Or", "Xor")),
    *((Node(op, "a"), [FLOATS]) for op in ("Abs", "Neg", "Ceil", "Floor", "Round", "Sign")),
    (Node("OneHot", "a b c"), [np.array([1, -1, 7]), np.array(3), np.array([2, 9])]),
    (Node("Clip", "a b c"), [WHOLE, np.array(-3), np.array(4)]),
    (Node("Clip", "a b"), [FLOATS, np.float32(0)]),
    (Node("Not", "a"), [TRUTH]),
    (Node("Sqrt", "a"), [np.abs(FLOATS)]),
    (Node("Reciprocal", "a"), [FLOATS[0]]),
    (Node("Where", "a b c"), [TRUTH, WHOLE, OTHER[0]]),
    (Node("Cast", "a", to=onnx.TensorProto.INT64), [FLOATS]),
    (Node("Cast", "a", to=onnx.TensorProto.BOOL), [FLOATS]),
    (Node("Cast", "a", to=onnx.TensorProto.INT8), [WHOLE]),
    (Node("Concat", "a b", axis=1), [WHOLE, OTHER]),
    (Node("Gather", "a b", axis=1), [WHOLE, np.array([-1, 0])]),
    (Node("Slice", "a b c d e"), [WHOLE, np.array([2]), np.array([-9]), np.array([1]), np.array([-1])]),
    (Node("Split", "a b", "y z", axis=1), [WHOLE, np.array([1, 2])]),
    (Node("Squeeze", "a b"), [WHOLE[:1], np.array([0])]),
    (Node("Unsqueeze", "a b"), [WHOLE, np.array([-1])]),
    (Node("Reshape", "a b"), [WHOLE, np.array([0, -1, 1])]),
    (Node("Expand", "a b"), [WHOLE, np.array([4, 1, 3])]),
    (Node("Tile", "a b"), [WHOLE, np.array([2, 1])]),
    (Node("Transpose", "a", perm=[1, 0]), [WHOLE]),
    (Node("Trilu", "a", upper=0), [WHOLE]),
    (Node("Range", "a b c"), [np.array(7), np.array(-2), np.array(-2)]),
    (Node("Range", "a b c"), [np.float32(0), np.float32(1), np.float32(0.3)]),
    (
        Node("ConstantOfShape", "a", value=numpy_helper.from_array(np.array([3], "int64"))),
        [np.array([2, 2])],
    ),
    # backwards from before the axis: its first element
    (Node("Slice", "a b c d e"), [WHOLE, np.array([-9]), np.array([-9]), np.array([1]), np.array([-1])]),
    (Node("Slice", "a b c - e"), [OTHER, np.array([-3]), np.array([-9]), np.array([-2])]),
    (Node("NonZero", "a"), [WHOLE]),
    (Node("ScatterElements", "a b c", axis=1), [WHOLE, np.array([[-1], [0]]), np.array([[9], [8]])]),
    (Node("ScatterElements", "a b c", reduction="add"), [WHOLE, np.array([[1, 1, -1]] * 2), OTHER]),
    (Node("ScatterND", "a b c"), [WHOLE, np.array([[1, -1], [0, 0]]), np.array([9, 8])]),
    (Node("ScatterND", "a b c", reduction="mul"), [WHOLE, np.array([[1], [1]]), OTHER]),
    (Node("TopK", "a b", "y z", axis=0, largest=0), [OTHER, np.array([1])]),
    (Node("TopK", "a b", "y z"), [np.array([3, 1, 3, 2]), np.array([3])]),
    (Node("Unique", "a", "y i v c"), [OTHER]),
    (Node("Unique", "a", "y - - c", axis=0), [np.array([[2, 1], [0, 5], [2, 1]])]),
    (Node("ReduceSum", "a b", keepdims=0), [WHOLE, np.array([1])]),
    (Node("ReduceProd", "a", axes=[0]), [WHOLE]),
    (Node("ReduceMax", "a", axes=[-1]), [WHOLE]),
    (Node("ReduceMin", "a", keepdims=0), [WHOLE]),
    (Node("DequantizeLinear", "a b c"), [np.int8(-7), np.float32(0.1), np.int8(3)]),
    (Node("DequantizeLinear", "a b"), [np.array([200], "uint8"), np.array([0.3], "float32")]),
]  # fmt: skip


@pytest.mark.parametrize(("node", "given"), FOLDED, ids=lambda each: getattr(each, "op_type", ""))
def test_what_is_folded_is_what_onnx_runtime_computes(node: onnx.NodeProto, given: list[Any]) -> None:
    arrays = dict(zip([name for name in node.input if name], map(np.asarray, given), strict=True))
    outputs = " ".join(name for name in node.output if name)
    expected = by_onnx_runtime(model_of_nodes([node], arrays, {}, outputs), arrays)
    known = {name: relax.const(each, str(each.dtype)) for name, each in arrays.items()}
    found = folded(node, [known.get(name) for name in node.input], OPSET)
    results = list(found.fields) if isinstance(found, relax.Tuple) else [found]
    for each, wanted in zip(results, expected, strict=True):
        assert isinstance(each, Constant)
        np.testing.assert_array_equal(each.value.numpy(), wanted, strict=True)


LEFT: list[tuple[onnx.NodeProto, list[Any]]] = [
    (Node("Div", "a b"), [WHOLE, np.zeros_like(WHOLE)]),
    (Node("Mul", "a a"), [np.array([3e38], "float32")]),
    (Node("Cast", "a", to=onnx.TensorProto.INT32), [np.array([np.nan, 1e30], "float32")]),
    (Node("Add", "a a"), [np.zeros(1025, "int64")]),
    (Node("Add", "a b"), [np.zeros(2, "int64"), np.zeros(3, "int64")]),
    (Node("ConstantOfShape", "a"), [np.array([2**40])]),
    (Node("Expand", "a b"), [np.zeros(1, "int64"), np.array([2**20, 2**20])]),
    (Node("Tile", "a b"), [np.zeros(2, "int64"), np.array([2**30])]),
    (Node("OneHot", "a b c"), [np.zeros(2, "int64"), np.array(2**30), np.array([0, 1])]),
    (Node("Range", "a b c"), [np.array(0), np.array(2**40), np.array(1)]),
    (Node("Range", "a b c"), [np.array(0), np.array(1), np.array(0)]),
    (Node("Exp", "a"), [FLOATS]),
    (Node("DequantizeLinear", "a b"), [np.array([1, 2], "int8"), np.float32(0.5)]),
    (Node("NonZero", "a"), [np.array(3)]),
    (Node("Unique", "a", sorted=0), [np.array([5, 2, 5])]),
    (Node("TopK", "a b", "y z"), [np.array([np.nan, 1.0]), np.array([1])]),
]


@pytest.mark.parametrize(("node", "given"), LEFT, ids=lambda each: getattr(each, "op_type", ""))
def test_what_is_large_or_undefined_or_rounded_is_left(node: onnx.NodeProto, given: list[Any]) -> None:
    arrays = dict(zip(dict.fromkeys(node.input), map(np.asarray, given), strict=True))
    operands = [relax.const(arrays[name], str(arrays[name].dtype)) for name in node.input]
    assert folded(node, operands, OPSET) is None


def test_shapes_are_numbers_and_symbolic_ones_are_not() -> None:
    node = Node("Mul", "a b")
    factor = relax.const(np.array([2, 2]), "int64")
    found = folded(node, [relax.ShapeExpr([3, 4]), factor], OPSET)
    assert isinstance(found, Constant)
    assert found.value.numpy().tolist() == [6, 8]
    assert folded(node, [relax.ShapeExpr([tirx.Var("n", "int64"), 4]), factor], OPSET) is None


# -- attention as ONNX tests it -------------------------------------------------------------------


RUN = [
    "test_attention_3d_gqa_scaled_expanded",
    "test_attention_4d_diff_heads_with_past_and_present_mask4d_expanded",
    "test_attention_23_boolmask_fullymasked_row_nan_robustness_expanded",
    "test_attention_causal_boolmask_nan_robustness",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_attention_4d_gqa_causal_nonpad_decode",
    "test_attention_3d_local_window",
    "test_attention_local_window_gqa_rank4_mask_expanded",
]


@pytest.mark.parametrize("name", RUN)
def test_attention_computes_what_onnx_says(name: str) -> None:
    case = cases_by_name()[name]
    for given, expected in case.calls:
        machine = relax.VirtualMachine(ar.build(ar.from_onnx(case.model)).jit(), tvm.cpu())
        result = machine["main"](*map(tvm.runtime.tensor, given))
        found = [result] if len(expected) == 1 else list(result)
        for each, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(each.numpy(), wanted, rtol=1e-5, atol=1e-6)


EXPANDED = [
    name for name in cases_by_name() if name.startswith("test_attention_") and name.endswith("_expanded")
]


@pytest.mark.parametrize("name", EXPANDED[::3])
def test_attention_in_parts_has_known_shapes(name: str) -> None:
    """A shape that only a run knew would be a call of a packed function."""
    module = ar.from_onnx(cases_by_name()[name].model)
    assert "call_packed" not in module["main"].script()
    require_well_formed(module)
