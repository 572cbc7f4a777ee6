"""Options of `from_onnx` that are misspelt, or name no input of the model, are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

import annotated_region as ar
from annotated_region.errors import UsageError


def model() -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    return helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes_dict": {"x": [3]}}, "from_onnx has no option shapes_dict; did you mean shape_dict?"),
        ({"batch": 1}, "from_onnx has no option batch; it has shape_dict, dtype_dict, value_dict, opset, "),
        (
            {"shape_dict": {"X": [3]}},
            "shape_dict names 'X', which is no input of the model 'net'; its inputs are",
        ),
        ({"dtype_dict": {"y": "int8"}}, "dtype_dict names 'y', which is no input of the model 'net'"),
        (
            {"shape_dict": {"x": [None, 3]}},
            "shape_dict gives the input 'x' of the model 'net' 2 extents; it has 1, of which None leaves one",
        ),
        ({"shape_dict": [3]}, r"shape_dict is [3]; pass a dictionary by the names of inputs"),
    ],
    ids=["misspelt", "unknown", "shape of nothing", "type of a result", "rank", "list"],
)
@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
def test_an_option_that_does_not_fit(options: Mapping[str, Any], message: str, isolated: bool) -> None:
    with pytest.raises(UsageError) as caught:
        ar.from_onnx(model(), isolated=isolated, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
def test_options_that_fit(isolated: bool) -> None:
    mod = ar.from_onnx(model(), isolated=isolated, shape_dict={"x": [3]}, dtype_dict={"x": "float32"})
    assert [int(each) for each in mod["main"].ret_ty.shape] == [3]


def test_an_extent_may_stay_as_it_is() -> None:
    two = model()
    for value in (*two.graph.input, *two.graph.output):
        value.type.tensor_type.shape.dim.add().dim_param = "m"
    kept, number = ar.from_onnx(two, shape_dict={"x": [None, 3]})["main"].params[0].ty.shape
    assert (str(kept), int(number)) == ("n", 3)
