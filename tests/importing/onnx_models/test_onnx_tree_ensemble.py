"""`TreeEnsemble` of ``ai.onnx.ml`` 5: ONNX Runtime's numbers, and what is declined."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
import tvm
from kits.onnx_nodes import Arrays, by_onnx_runtime
from onnx import helper, numpy_helper
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.converters.classical import CLASSICAL

MODES = {name: number for number, name in enumerate(("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER"))}
FOREST = {
    "tree_roots": [0, 3],
    "nodes_featureids": [0, 1, 2, 1],
    "nodes_trueleafs": [0, 1, 1, 1],
    "nodes_truenodeids": [1, 0, 2, 4],
    "nodes_falseleafs": [0, 1, 1, 1],
    "nodes_falsenodeids": [2, 1, 3, 5],
    "leaf_targetids": [0, 0, 0, 0, 0, 0],
}
"""Two trees: one of the nodes 0, 1 and 2 with four leaves, one of the node 3 with two."""
VECTORS = {
    "nodes_modes": np.array([0, 1, 6, 2], "uint8"),
    "nodes_splits": np.array([0.5, 1.25, 0.0, -1.0]),
    "membership_values": np.array([2.0, 5.0, 7.0, np.nan]),
    "leaf_weights": np.array([1.5, -2.0, 0.25, 4.0, 0.125, 8.0]),
}
ROWS = np.array([[0, 1, 0], [1, -3, 5], [1, 2, 7], [0.5, 1.25, 2], [9, np.nan, 2.5], [np.nan, -1, np.nan]])


def model_of(changed: Mapping[str, object], dtype: str = "float32") -> onnx.ModelProto:
    vectors = {
        name: numpy_helper.from_array(array.astype("uint8" if name == "nodes_modes" else dtype))
        for name, array in (VECTORS | {k: v for k, v in changed.items() if isinstance(v, np.ndarray)}).items()
    }
    plain = {name: value for name, value in changed.items() if not isinstance(value, np.ndarray)}
    attributes: Mapping[str, object] = FOREST | vectors | {"n_targets": 1} | plain
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], "it", domain=CLASSICAL, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", plain.get("n_targets", 1)])],
    )
    versions = [helper.make_opsetid("", 21), helper.make_opsetid(CLASSICAL, 5)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def by_host(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    machine = relax.VirtualMachine(ar.build(ar.from_onnx(model)).jit(), tvm.cpu())
    return [machine["main"](*map(tvm.runtime.tensor, inputs.values())).numpy()]


@pytest.mark.sweep
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"nodes_missing_value_tracks_true": [1, 0, 1, 1]},
        {"aggregate_function": 0},
        {"aggregate_function": 2},
        {"aggregate_function": 3},
        {"n_targets": 2, "leaf_targetids": [0, 0, 0, 0, 1, 1]},
        {"n_targets": 2, "leaf_targetids": [0, 0, 0, 0, 1, 1], "post_transform": 3},
        {"nodes_modes": np.array([3, 4, 5, 1], "uint8")},
    ],
    ids=lambda changed: " ".join(changed) or "sums",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_forests(dtype: str, changed: Mapping[str, object]) -> None:
    model = model_of(changed, dtype)
    for rows in (ROWS, ROWS[:1]):
        inputs = {"x": rows.astype(dtype)}
        (expected,), (found,) = by_onnx_runtime(model, inputs), by_host(model, inputs)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_comparisons_are_as_exact_as_the_features() -> None:
    """A float32 is no nearer than 2^-24 to 1."""
    model = model_of({"nodes_splits": np.array([1 + 1e-12, 1.25, 0.0, -1.0])}, "float64")
    inputs = {"x": np.array([[1 + 2e-12, 0, 2.0], [1.0, 0, 2.0]])}
    (expected,), (found,) = by_onnx_runtime(model, inputs), by_host(model, inputs)
    assert found.tolist() == expected.tolist() != [expected[0].tolist()] * 2


REFUSED: Mapping[str, dict[str, object]] = {
    "lacks its attribute 'leaf_weights'": {"leaf_weights": [1.0]},
    "no vector of float32": {"leaf_weights": np.ones((2, 3))},
    "different lengths for its leaves": {"leaf_targetids": [0]},
    "different lengths for its nodes": {"nodes_featureids": [0]},
    "more than 1 targets": {"leaf_targetids": [0, 1, 0, 0, 0, 0]},
    "without a weight for each target": {"n_targets": 2, "leaf_targetids": [0, 1, 0, 0, 0, 0]},
    "roots that are no nodes": {"tree_roots": [4]},
    "a successor that is no node": {"nodes_truenodeids": [9, 0, 2, 4]},
    "a successor that is no leaf": {"nodes_truenodeids": [1, 6, 2, 4]},
    "or with cycles": {"nodes_truenodeids": [0, 0, 2, 4]},
    "a node of two trees": {"tree_roots": [0, 1]},
    "2 sets of members for 1 nodes": {"membership_values": np.array([2.0, np.nan, 5.0])},
    "of 2, which ONNX Runtime takes for another": {"post_transform": 2},
    "'PROBIT', which is not supported": {"post_transform": 4},
    "nodes of the mode 7": {"nodes_modes": np.array([7, 0, 0, 0], "uint8")},
    "reads feature 8 of 3": {"nodes_featureids": [8, 0, 0, 0]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_forest_is_declined(message: str) -> None:
    with pytest.raises(ModelError, match=f"node 'it' .*{message}"):
        ar.from_onnx(model_of(REFUSED[message]))
