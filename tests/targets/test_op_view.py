"""What a rule sees of an op."""

import gc

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from annotated_region import OpView

X = relax.Var("x", relax.TensorType((1, 3, 8, 8), "float32"))
WEIGHT = np.arange(108, dtype="float32").reshape(4, 3, 3, 3)


def test_attributes_are_python_values():
    view = OpView.of(relax.op.nn.conv2d(X, relax.const(WEIGHT), strides=2, padding=(1, 0), groups=1))
    assert view is not None
    assert view.name == "relax.nn.conv2d"
    assert view.attrs["strides"] == (2, 2)
    assert view.attrs["padding"] == (1, 0, 1, 0)
    assert view.attrs["data_layout"] == "NCHW"
    assert view.attrs["out_dtype"] is None
    assert {type(value) for value in view.attrs.values()} <= {tuple, int, str, type(None)}


@pytest.mark.parametrize(("sections", "expected"), [(3, 3), ([1, 2], (1, 2))])
def test_numbers_and_arrays_become_numbers_and_tuples(sections, expected):
    view = OpView.of(relax.op.split(X, sections, axis=1))
    assert view is not None
    assert view.attrs == {"indices_or_sections": expected, "axis": 1}


def test_a_constant_argument_is_an_array_and_others_are_none():
    view = OpView.of(relax.op.nn.conv2d(X, relax.const(WEIGHT)))
    assert view is not None
    assert view.constant(0) is None
    found = view.constant(1)
    assert found is not None
    np.testing.assert_array_equal(found, WEIGHT)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", ml_dtypes.bfloat16])
def test_a_rule_cannot_write_to_a_constant(dtype):
    constant = relax.const(np.ones((2, 3), dtype))
    view = OpView.of(relax.op.nn.relu(constant))
    assert view is not None
    found = view.constant(0)
    assert found is not None
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 0
    np.testing.assert_array_equal(constant.value.numpy(), np.ones((2, 3), dtype))


def test_a_constant_outlives_its_call():
    view = OpView.of(relax.op.nn.relu(relax.const(WEIGHT)))
    assert view is not None
    found = view.constant(0)
    del view
    gc.collect()
    np.testing.assert_array_equal(found, WEIGHT)


def test_a_constant_is_not_copied():
    view = OpView.of(relax.op.nn.relu(relax.const(WEIGHT)))
    assert view is not None
    assert np.shares_memory(view.constant(0), view.constant(0))


def test_constants_of_dtypes_that_numpy_lacks():
    value = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    view = OpView.of(relax.op.nn.relu(relax.const(value)))
    assert view is not None
    found = view.constant(0)
    assert found is not None
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tolist() == [1.5, -2.0]


def test_types_of_arguments_and_result():
    call = relax.BlockBuilder().normalize(relax.op.nn.relu(X))
    view = OpView.of(call)
    assert view is not None
    assert [int(extent) for extent in view.arg_types[0].shape] == [1, 3, 8, 8]
    assert str(view.out_type.dtype) == "float32"


def test_a_call_to_a_function_has_no_view():
    assert OpView.of(relax.Call(relax.ExternFunc("f"), [X])) is None
