"""Node tests of the onnx package that TVM's importer answers wrongly, or that are refused with a reason."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnxruntime
import pytest
import tvm
from kits.importing.node_cases import cases_by_name, in_form
from kits.importing.node_checks import Kind, checked
from tvm import relax

import annotated_region as ar

RIGHT = [
    "test_batchnorm_example_training_mode",
    "test_bitshift_left_int32_negative_shift",
    "test_bitshift_right_int32_shift_ge_width",
    "test_constantofshape_float_ones",
    "test_convtranspose_output_shape",
    "test_dropout_default_mask_ratio",
    "test_isinf_negative",
    "test_isinf_positive",
    "test_layer_normalization_2d_axis0",
    "test_layer_normalization_4d_axis_negative_2",
    "test_mod_float_edge_cases_fmod_0_float32",
    "test_nonmaxsuppression_two_classes",
    "test_pow_types_int64_int64",
    "test_pow_types_float32_int64",
    "test_pow_types_int32_float32",
    "test_reshape_negative_extended_dims",
    "test_reshape_zero_and_negative_dim",
    "test_shape_start_1_end_2",
    "test_spacetodepth_crd_mode_example",
]

REFUSED = {
    "test_cast_FLOAT_to_FLOAT8E4M3FN": r"is of type float8_e4m3fn, which TVM cannot compute with",
    "test_cast_UINT4_to_FLOAT": r"integers of 4 bits, which are supported as constants only",
    "test_identity_sequence": r"its input 'x' is a sequence of tensors",
    "test_reduce_max_keepdims_example": r"\(ReduceMax\): Only constant axes currently supported",
    "test_roialign_mode_max": r"the attribute 'mode' of 'max', which is not supported",
    "test_training_dropout_default": r"drops elements at random",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_was_wrong_is_right(name: str) -> None:
    outcome = checked(cases_by_name()[name], "host")
    assert outcome.kind is Kind.RIGHT, outcome.text


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(ar.ModelError, match=REFUSED[name]):
        ar.from_onnx(cases_by_name()[name].model)


@pytest.mark.parametrize("name", ["test_reduce_max_keepdims_example"])
def test_what_is_no_constant_is_right_as_one(name: str) -> None:
    case = in_form(cases_by_name()[name], "constants")
    assert case is not None
    outcome = checked(case, "host")
    assert outcome.kind is Kind.RIGHT, outcome.text


SUPPRESSION = """<ir_version: 8, opset_import: ["" : 17]> g
    (float[1, 4, 4] boxes, float[1, 1, 4] scores) => (int64[a, b] y) <int64[1] most = {4}>
    { y = NonMaxSuppression(boxes, scores, most) }"""


@pytest.mark.parametrize("scores", [[0.9, 0.8, 0.7, 0.6], [0.9, -0.8, 0, -0.6], [-1, -1, -1, -2]], ids=str)
def test_thresholds_that_are_left_out_drop_no_score(scores: list[float]) -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.7, 1, 1.7], [0, 0.9, 1, 1.9], [0, 3, 1, 4]]], "float32")
    given = np.array([[scores]], "float32")
    model = onnx.parser.parse_model(SUPPRESSION)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"boxes": boxes, "scores": given})
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(boxes), tvm.runtime.tensor(given)).numpy()
    np.testing.assert_array_equal(found, expected)


def test_a_number_of_boxes_that_is_no_limit_keeps_all() -> None:
    """PyTorch's exporter writes it so."""
    boxes = np.array([[[0, 0, 1, 1], [0, 0.7, 1, 1.7], [0, 0.9, 1, 1.9], [0, 3, 1, 4]]], "float32")
    scores = np.array([[[0.9, 0.8, 0.7, 0.6]]], "float32")
    model = onnx.parser.parse_model(SUPPRESSION.replace("{4}", f"{{{2**63 - 1}}}"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"boxes": boxes, "scores": scores})
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(boxes), tvm.runtime.tensor(scores)).numpy()
    np.testing.assert_array_equal(found, expected)
