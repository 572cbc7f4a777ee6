"""Operators for classical models (``ai.onnx.ml``): ONNX Runtime's numbers, and what is declined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from kits.onnx_nodes import by_onnx_runtime, by_tvm
from onnx import helper

import annotated_region as ar
from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.converters.classical import CLASSICAL

Inputs = Mapping[str, np.ndarray]
FLOATS = np.random.default_rng(11).standard_normal((5, 3)).astype("float32")


def model_of(
    op: str,
    inputs: Inputs,
    attributes: Mapping[str, object],
    outputs: Sequence[str] = ("y",),
    version: int = 3,
) -> onnx.ModelProto:
    node = helper.make_node(op, list(inputs), list(outputs), "it", domain=CLASSICAL, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(CLASSICAL, version)]
    return helper.make_model(
        helper.make_graph([node], "classical", infos, results), opset_imports=versions, ir_version=8
    )


def compare(model: onnx.ModelProto, inputs: Inputs) -> None:
    """Labels are equal, and scores up to rounding."""
    expected, found = by_onnx_runtime(model, inputs), by_tvm(ar.from_onnx(model), inputs)
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=2e-6, atol=1e-6)


# float32 has neither the numbers of the first row.
FINE = np.array([[16777217, 1 + 1e-9, 0], [16777215, 1, 0]])
WITH_GAPS = np.array([[1, np.nan, 2], [0, 5, np.nan]], "float32")
WITH_ZEROS = np.array([[0, 0, 0], [1, -2, 3], [-1, -2, -3]], "float32")
PREPARED: Mapping[str, tuple[str, np.ndarray, Mapping[str, object]]] = {
    "scaled": ("Scaler", FLOATS, {"offset": [1.0, -2.0, 0.5], "scale": [0.5, 2.0, 3.0]}),
    "scaled by one number": ("Scaler", FLOATS, {"offset": [1.0], "scale": [0.5]}),
    "differences of float64": ("Scaler", FINE, {"offset": [16777216.0, 1.0, 0.0], "scale": [1.0, 1e9, 1.0]}),
    "a vector scaled": ("Scaler", FLOATS[0], {"offset": [1.0], "scale": [0.5]}),
    "the length of a vector": ("Normalizer", FLOATS[0], {"norm": "L2"}),
    "zeros replaced by default": ("Imputer", WITH_ZEROS, {"imputed_value_floats": [7.0]}),
    "whole numbers scaled": ("Scaler", np.array([[1, 2, 3]]), {"offset": [1.0], "scale": [0.5]}),
    "the largest": ("Normalizer", WITH_ZEROS[:2], {"norm": "MAX"}),
    "magnitudes": ("Normalizer", WITH_ZEROS, {"norm": "L1"}),
    "lengths": ("Normalizer", WITH_ZEROS, {"norm": "L2"}),
    "gaps": ("Imputer", WITH_GAPS, {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": np.nan}),
    "a number for another": (
        "Imputer",
        WITH_ZEROS,
        {"imputed_value_floats": [7.0], "replaced_value_float": 3.0},
    ),
    "whole numbers": (
        "Imputer",
        np.array([[1, 2], [2, 3]]),
        {"imputed_value_int64s": [7, 8], "replaced_value_int64": 2},
    ),
    "above a threshold": ("Binarizer", FLOATS, {"threshold": 0.25}),
    "floats for numbers": (
        "LabelEncoder",
        np.array([[3, 9], [5, 4]]),
        {"keys_int64s": [3, 4], "values_floats": [0.5, -1.5], "default_float": 2.5},
    ),
    "numbers for floats": ("LabelEncoder", WITH_ZEROS, {"keys_floats": [3.0, -2.0], "values_int64s": [7, 8]}),
    "categories": ("OneHotEncoder", np.array([[3, 9], [5, 4]]), {"cats_int64s": [3, 4, 5], "zeros": 1}),
}


@pytest.mark.parametrize("name", PREPARED)
def test_features_are_those_of_onnx_runtime(name: str) -> None:
    op, data, attributes = PREPARED[name]
    compare(model_of(op, {"x": data}, attributes), {"x": data})


@pytest.mark.parametrize("places", [[[2, 0]], [[1]]])
def test_features_by_places(places: list[list[int]]) -> None:
    inputs = {"x": FLOATS, "p": np.array(places).reshape(-1)}
    compare(model_of("ArrayFeatureExtractor", inputs, {}), inputs)


def test_features_are_joined() -> None:
    inputs = {"x": FLOATS, "z": FLOATS[:, :2]}
    compare(model_of("FeatureVectorizer", inputs, {"inputdimensions": [3, 2]}, version=1), inputs)


COEFFICIENTS = np.random.default_rng(12).standard_normal(12).round(2).tolist()


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_models(transform: str) -> None:
    attributes = {"coefficients": COEFFICIENTS[:6], "intercepts": [0.5, -1.0], "post_transform": transform}
    inputs = {"x": FLOATS}
    compare(model_of("LinearRegressor", inputs, attributes | {"targets": 2}), inputs)
    compare(
        model_of("LinearClassifier", inputs, attributes | {"classlabels_ints": [0, 1]}, ("l", "y")), inputs
    )
    compare(
        model_of("LinearClassifier", inputs, attributes | {"classlabels_ints": [7, 3]}, ("l", "y")), inputs
    )


TREES: dict[str, object] = {
    # Two trees: the first asks two questions, the second is one leaf.
    "nodes_treeids": [0, 0, 0, 0, 0, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0],
    "nodes_featureids": [1, 0, 0, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF", "LEAF"],
    "nodes_values": [0.25, 0.0, -0.5, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 0],
}
LEAVES = {"treeids": [0, 0, 0, 1], "nodeids": [1, 3, 4, 0]}
# On thresholds, besides, and missing.
ROWS = np.concatenate([FLOATS, [[-0.5, 0.25, 0], [-0.6, 0.3, 0], [np.nan, 9, 0], [0, np.nan, 0]]]).astype(
    "float32"
)


def leaves(kind: str, ids: list[int], weights: list[float]) -> dict[str, object]:
    given = {**LEAVES, "ids": ids, "weights": weights}
    return {f"{kind}_{name}": value for name, value in given.items()}


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("reduction", ["SUM", "AVERAGE"])
def test_sums_over_trees(reduction: str, missing: int) -> None:
    attributes = TREES | leaves("target", [0, 0, 0, 1], [1.5, -2.0, 0.25, 4.0])
    model = model_of(
        "TreeEnsembleRegressor",
        {"x": ROWS},
        {
            "n_targets": 2,
            "aggregate_function": reduction,
            "base_values": [0.5, 1.0],
            "nodes_missing_value_tracks_true": [missing] * 6,
            **attributes,
        },
    )
    compare(model, {"x": ROWS})


@pytest.mark.parametrize("reduction", ["MIN", "MAX"])
def test_extremes_over_trees(reduction: str) -> None:
    attributes = TREES | leaves("target", [0, 0, 0, 0], [1.5, -2.0, 0.25, 1.0])
    inputs = {"x": ROWS}
    compare(
        model_of(
            "TreeEnsembleRegressor", inputs, attributes | {"n_targets": 1, "aggregate_function": reduction}
        ),
        inputs,
    )


@pytest.mark.parametrize("labels", [[0, 1, 2], [5, 3, 9]])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classes_of_trees(labels: list[int], transform: str) -> None:
    attributes = TREES | leaves("class", [0, 1, 2, 1], [1.5, 2.0, 0.25, 1.0])
    model = model_of(
        "TreeEnsembleClassifier",
        {"x": ROWS},
        {"classlabels_int64s": labels, "post_transform": transform, **attributes},
        ("l", "y"),
    )
    compare(model, {"x": ROWS})


@pytest.mark.parametrize("base", [[], [0.25]])
@pytest.mark.parametrize(
    ("weights", "transform"),
    [
        ([0.4, 0.1, 0.3, 0.2], "NONE"),
        ([0.5, -0.75, 0.25, 0.2], "NONE"),
        ([0.5, -0.75, 0.25, 0.2], "LOGISTIC"),
    ],
)
def test_two_classes_with_weights_for_one(weights: list[float], transform: str, base: list[float]) -> None:
    attributes = TREES | leaves("class", [0] * 4, weights) | ({"base_values": base} if base else {})
    model = model_of(
        "TreeEnsembleClassifier",
        {"x": ROWS},
        {"classlabels_int64s": [0, 1], "post_transform": transform, **attributes},
        ("l", "y"),
    )
    compare(model, {"x": ROWS})


VECTORS = np.random.default_rng(13).standard_normal((5, 3)).round(2)
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "RBF": [0.5, 0.0, 0.0],
    "POLY": [0.5, 1.0, 3.0],
    "SIGMOID": [0.25, 0.5, 0.0],
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_sums_over_support_vectors(kernel: str, one_class: int) -> None:
    attributes = {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "support_vectors": VECTORS.ravel().tolist(),
        "n_supports": 5,
        "coefficients": COEFFICIENTS[:5],
        "rho": [0.25],
        "one_class": one_class,
    }
    compare(model_of("SVMRegressor", {"x": FLOATS}, attributes), {"x": FLOATS})


def test_a_regression_without_support_vectors_is_linear() -> None:
    plain = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    attributes = {"coefficients": COEFFICIENTS[:3], "rho": [0.25], "n_supports": 0, **plain}
    compare(model_of("SVMRegressor", {"x": FLOATS}, attributes), {"x": FLOATS})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("labels", [[0, 1, 2], [4, 2, 7]])
def test_votes_of_pairs_of_classes(kernel: str, labels: list[int]) -> None:
    attributes = {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "support_vectors": VECTORS.ravel().tolist(),
        "vectors_per_class": [2, 1, 2],
        "coefficients": COEFFICIENTS[:10],
        "rho": [0.25, -0.5, 0.125],
        "classlabels_ints": labels,
    }
    compare(model_of("SVMClassifier", {"x": FLOATS}, attributes, ("l", "y")), {"x": FLOATS})


def grown(depth: int, trees: int) -> dict[str, object]:
    """Full trees with random questions."""
    rng, inner = np.random.default_rng(depth), 2**depth - 1
    count = 2 * inner + 1
    every = np.arange(count)
    is_leaf = every >= inner
    leaves = every[is_leaf].tolist()
    return {
        "nodes_treeids": np.repeat(np.arange(trees), count).tolist(),
        "nodes_nodeids": every.tolist() * trees,
        "nodes_featureids": rng.integers(0, 3, count * trees).tolist(),
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf] * trees,
        "nodes_values": rng.standard_normal(count * trees).tolist(),
        "nodes_truenodeids": np.where(is_leaf, 0, 2 * every + 1).tolist() * trees,
        "nodes_falsenodeids": np.where(is_leaf, 0, 2 * every + 2).tolist() * trees,
        "target_treeids": np.repeat(np.arange(trees), len(leaves)).tolist(),
        "target_nodeids": leaves * trees,
        "target_ids": [0] * len(leaves) * trees,
        "target_weights": rng.standard_normal(len(leaves) * trees).tolist(),
        "n_targets": 1,
    }


def test_a_forest_is_one_region() -> None:
    """Twelve steps: reading the place of a step as an expression took time exponential in the steps."""
    model = model_of("TreeEnsembleRegressor", {"x": FLOATS}, grown(12, 3))
    compare(model, {"x": FLOATS})
    (function,) = ar.explain(ar.from_onnx(model), ["dnnl"]).functions
    assert len(function.regions) == 1
    assert not [op for op in function.ops if op.placed == "host"]


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
def test_comparisons_of_numbers_that_float32_lacks(dtype: str) -> None:
    """Of float64 in float64; whole numbers are float32 first."""
    stump = {
        "nodes_treeids": [0] * 3,
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0] * 3,
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [16777216.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0] * 6,
        "class_nodeids": [1, 1, 1, 2, 2, 2],
        "class_ids": [0, 1, 2] * 2,
        "class_weights": [0.75, 0.25, 0.0, 0.125, 0.875, 0.0],
        "classlabels_int64s": [0, 1, 2],
    }
    inputs = {"x": np.array([[16777215], [16777217]], dtype)}
    compare(model_of("TreeEnsembleClassifier", inputs, stump, ("l", "y")), inputs)


def test_a_leaf_of_many_targets_is_imported_quickly() -> None:
    """The time does not grow with the product of targets and trees; 2^24 targets took minutes."""
    attributes = TREES | leaves("target", [0] * 4, [1.0] * 4) | {"n_targets": 2**20}
    assert ar.from_onnx(model_of("TreeEnsembleRegressor", {"x": FLOATS}, attributes))


def test_trees_of_features_of_unknown_number_are_declined() -> None:
    """A call may have fewer features than the trees read."""
    attributes = TREES | leaves("target", [0] * 4, [1.0] * 4)
    model = model_of("TreeEnsembleRegressor", {"x": FLOATS}, attributes)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "w"
    with pytest.raises(ModelError, match=r"node 'it' .* has w features; give it a number"):
        ar.from_onnx(model)


DECLINED: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "makes maps from classes to scores": ("ZipMap", {"classlabels_int64s": [0, 1, 2]}),
    "has no classes that are numbers": (
        "LinearClassifier",
        {"coefficients": COEFFICIENTS[:6], "classlabels_strings": ["a", "b"]},
    ),
    "has 5 coefficients for 2 targets of 3 features": (
        "LinearRegressor",
        {"coefficients": COEFFICIENTS[:5], "targets": 2},
    ),
    "the attribute 'post_transform' of 'PROBIT'": (
        "LinearRegressor",
        {"coefficients": COEFFICIENTS[:3], "post_transform": "PROBIT"},
    ),
    "the attribute 'norm' of 'L3'": ("Normalizer", {"norm": "L3"}),
    "has 2 numbers in 'offset' for 3 features": ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}),
    "a successor that is no node": (
        "TreeEnsembleRegressor",
        TREES | {"nodes_truenodeids": [9, 0, 3, 0, 0, 0]},
    ),
    "or with cycles": ("TreeEnsembleRegressor", TREES | {"nodes_truenodeids": [1, 0, 0, 0, 0, 0]}),
    "computes probabilities": ("SVMClassifier", {"classlabels_ints": [0, 1], "prob_a": [1.0]}),
    "2 classes, and support vectors for 3": (
        "SVMClassifier",
        {"classlabels_ints": [0, 1], "vectors_per_class": [1, 1, 1]},
    ),
    "3 numbers for 2 support vectors": ("SVMRegressor", {"n_supports": 2, "support_vectors": [1.0] * 3}),
    "of the modes BRANCH_MEMBER": (
        "TreeEnsembleRegressor",
        TREES | {"nodes_modes": ["BRANCH_MEMBER", *["LEAF"] * 5]},
    ),
    "reads feature 8 of 3": ("TreeEnsembleRegressor", TREES | {"nodes_featureids": [8, 0, 0, 0, 0, 0]}),
    "weights for the second one of two classes": (
        "TreeEnsembleClassifier",
        TREES | leaves("class", [1] * 4, [0.5, -0.5, 1.0, 0.25]) | {"classlabels_int64s": [0, 1]},
    ),
    "reads feature -1 of 3": ("TreeEnsembleRegressor", TREES | {"nodes_featureids": [-1, 0, 0, 0, 0, 0]}),
    "'replaced_value_float' that is not a number": (
        "Imputer",
        {"imputed_value_floats": [7.0], "replaced_value_float": 3},
    ),
    "has 1 numbers in 'rho'; it should have 199990000": (
        "SVMClassifier",
        {"classlabels_ints": [*range(20000)], "vectors_per_class": [0] * 20000, "rho": [1.0]},
    ),
    "of different lengths for its nodes": ("TreeEnsembleRegressor", TREES | {"nodes_values": [0.5]}),
    "keys of its input's type": ("LabelEncoder", {"keys_int64s": [1], "values_int64s": [1]}),
    "rows without a weight for each target": (
        "TreeEnsembleRegressor",
        TREES | leaves("target", [0, 1, 0, 1], [1.0] * 4) | {"n_targets": 2, "base_values": [1.0, 2.0]},
    ),
    "weights that no leaf has": (
        "TreeEnsembleRegressor",
        TREES | leaves("target", [0] * 4, [1.0] * 4) | {"target_nodeids": [2, 3, 4, 0]},
    ),
}


@pytest.mark.parametrize("message", DECLINED)
def test_classical_nodes_that_are_declined(message: str) -> None:
    op, attributes = DECLINED[message]
    outputs = ("l", "y") if "Classifier" in op else ("y",)
    with pytest.raises(ModelError, match=rf"node 'it' \(ai.onnx.ml.{op}\).*{message}"):
        ar.from_onnx(model_of(op, {"x": FLOATS}, attributes, outputs))
