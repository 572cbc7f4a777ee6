"""Inputs that get values become constants: branches are chosen, dropouts end, masks fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from kits.host_machines import host_machine
from kits.onnx_nodes import by_onnx_runtime

import annotated_region as ar
from annotated_region.errors import ModelError, UsageError

MERGED = """
<ir_version: 9, opset_import: ["" : 18]>
merged (float[n, 4] x, bool[1] use_cache, float[4] bias) => (float[n, m] y) {
  y = If (use_cache) <
    then_branch = cached () => (float[n, m] a) { a = Relu(x) },
    else_branch = whole () => (float[n, m] b) { s = Add(x, bias) b = Concat<axis = 1>(s, x) }
  >
}
"""
"""As exporters merge the first step of a decoder and the following ones."""

DROPPING = """
<ir_version: 9, opset_import: ["" : 18]>
dropping (float[2, 3] x, bool deterministic) => (float[2, 3] y) {
  ratio = Constant<value = float {0.5}>()
  training = Not(deterministic)
  dropped = Dropout(x, ratio, training)
  y = Relu(dropped)
}
"""
"""As Flax calls a network."""

TYPES = """
<ir_version: 9, opset_import: ["" : 18]>
types (float[2, 3] x, int8[k] few, float16 half) => (float[2, 3] y) { y = Relu(x) }
"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def answer(mod: tvm.IRModule, *arrays: np.ndarray) -> np.ndarray:
    result: np.ndarray = host_machine(mod)["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    return result


def ops_of(mod: tvm.IRModule) -> list[str]:
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.relax.Call | tvm.relax.If):
            found.append(node.op.name if isinstance(node, tvm.relax.Call) else "If")

    tvm.relax.analysis.post_order_visit(mod["main"], visit)
    return found


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
@pytest.mark.parametrize("use_cache", [False, True])
def test_a_flag_chooses_the_branch_that_is_compiled(use_cache: bool, isolated: bool) -> None:
    given = {"use_cache": use_cache, "bias": np.arange(4.0)}
    mod = ar.from_onnx(parsed(MERGED), isolated=isolated, value_dict=given)
    assert [each.name for each in mod["main"].params] == ["x"]
    assert ops_of(mod) == (["relax.nn.relu"] if use_cache else ["relax.add", "relax.concat"])
    x = drawn(3, 4)
    inputs = {"x": x, "use_cache": np.array([use_cache]), "bias": np.arange(4, dtype="float32")}
    (wanted,) = by_onnx_runtime(parsed(MERGED), inputs)
    np.testing.assert_array_equal(answer(mod, x), wanted)


def test_a_network_that_may_train_is_imported_for_inference() -> None:
    with pytest.raises(ModelError, match="drops elements at random"):
        ar.from_onnx(parsed(DROPPING))
    mod = ar.from_onnx(parsed(DROPPING), value_dict={"deterministic": True})
    x = drawn(2, 3)
    (wanted,) = by_onnx_runtime(parsed(DROPPING), {"x": x, "deterministic": np.array(True)})
    np.testing.assert_array_equal(answer(mod, x), wanted)


def test_the_model_and_its_default_stay_as_they_were() -> None:
    model = parsed(MERGED)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(4, "float32"), "bias"))
    before = model.SerializeToString()
    x = drawn(1, 4)
    mod = ar.from_onnx(model, value_dict={"use_cache": False, "bias": [1, 2, 3, 4]})
    assert model.SerializeToString() == before
    np.testing.assert_array_equal(answer(mod, x)[:, :4], x + np.arange(1, 5, dtype="float32"))


def test_a_value_has_its_own_shape() -> None:
    with pytest.raises(UsageError, match="the input 'few' of the model 'types' is given a shape and a value"):
        ar.from_onnx(parsed(TYPES), shape_dict={"few": [2]}, value_dict={"few": [1, 2]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"flag": 1}, "value_dict names 'flag', which is no input of the model 'types'; its inputs are"),
        ([1], "value_dict is [1]; pass a dictionary by the names of inputs"),
        (
            {"few": [1, 300]},
            "value_dict gives the input 'few' of the model 'types' [1, 300], which int8 does not",
        ),
        ({"few": [0.5]}, "value_dict gives the input 'few' of the model 'types' [0.5], which int8 does not"),
        (
            {"half": 1e6},
            "value_dict gives the input 'half' of the model 'types' 1000000.0, which float16 does",
        ),
        (
            {"few": 1},
            "value_dict gives the input 'few' of the model 'types' 1, of shape []; its shape is [?]",
        ),
        (
            {"x": [[1.0], [2.0]]},
            "value_dict gives the input 'x' of the model 'types' [[1.0], [2.0]], of shape [2, 1]",
        ),
        (
            {"x": [[1.0], [2.0, 3.0]]},
            "value_dict gives the input 'x' of the model 'types' [[1.0], [2.0, 3.0]], which",
        ),
        (
            {"x": "one"},
            "value_dict gives the input 'x' of the model 'types' 'one', which is no array of numbers",
        ),
    ],
    ids=["unknown", "list", "too large", "fraction", "overflow", "unknown extent", "shape", "ragged", "text"],
)
@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
def test_a_value_that_does_not_fit(values: Any, message: str, isolated: bool) -> None:
    with pytest.raises(UsageError) as caught:
        ar.from_onnx(parsed(TYPES), isolated=isolated, value_dict=values)
    assert str(caught.value).startswith(message)
