"""`SVMRegressor` and `SVMClassifier`: products with the support vectors, a kernel, and weighted sums.

A classifier compares each pair of classes: the sign of a score gives one of the two a vote, and the class of
most votes wins. Probabilities need an iteration for each row, and are declined.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.classical import CLASSICAL, features, labelled, single
from annotated_region.importing.onnx_models.converters.node import OnnxNode
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_LARGEST = 2**26
"""The maximum number of weights, or of votes."""

_COMMON = "coefficients kernel_params kernel_type post_transform rho support_vectors"


@converts(CLASSICAL, "SVMRegressor", (1, 1), f"{_COMMON} n_supports one_class")
def _regression(node: OnnxNode) -> relax.Expr:
    """The weighted sum; its sign, if it tells members of one class from others."""
    _require_plain(node)
    weights = np.asarray(node.numbers("coefficients"), "float32")
    count = node.integer("n_supports", 0, 0)
    vectors = _vectors(node, count)
    node.require(weights.size == (count or vectors.shape[1]), f"has {weights.size} coefficients")
    if count:
        products = node.emit(_kernel(node, vectors))
        sums = relax.op.matmul(products, relax.const(weights.reshape(-1, 1)))
    else:
        sums = relax.op.matmul(features(node), relax.const(weights.reshape(-1, 1)))
    (rho,) = _rho(node, 1)
    score = node.emit(relax.op.add(node.emit(sums), single(rho)))
    if not node.integer("one_class", 0, 0, 1):
        return score
    is_member = node.emit(relax.op.greater(score, single(0.0)))
    return relax.op.where(is_member, single(1.0), single(-1.0))


@converts(
    CLASSICAL,
    "SVMClassifier",
    (1, 1),
    f"{_COMMON} classlabels_ints classlabels_strings prob_a prob_b vectors_per_class",
)
def _classification(node: OnnxNode) -> relax.Expr:
    """The class of most votes, the first of equal ones, and the scores of the pairs of classes.

    Of two classes the score of their pair stands there twice, once with the other sign.
    """
    _require_plain(node)
    labels, counts = node.integers("classlabels_ints"), node.integers("vectors_per_class")
    node.require(bool(labels), "has no classes that are numbers; those with names are not supported")
    node.require(not node.numbers("prob_a"), "computes probabilities, which is not supported")
    node.require(
        len(labels) == len(counts) > 1 and min(counts) >= 0,
        f"has {len(labels)} classes, and support vectors for {len(counts)}",
    )
    vectors = _vectors(node, sum(counts))
    rho = relax.const(np.asarray(_rho(node, len(labels) * (len(labels) - 1) // 2), "float32"))
    pairs = list(combinations(range(len(labels)), 2))
    size = len(pairs) * max(len(labels), len(vectors))
    node.require(size <= _LARGEST, "has too many pairs of classes")
    weights = np.asarray(node.numbers("coefficients"), "float32")
    node.require(
        weights.size == (len(labels) - 1) * len(vectors), f"has {weights.size} coefficients of its vectors"
    )
    sums = relax.op.matmul(node.emit(_kernel(node, vectors)), relax.const(_of_pairs(weights, counts, pairs)))
    scores = node.emit(relax.op.add(node.emit(sums), rho))
    is_first = node.emit(relax.op.greater(scores, single(0.0)))
    votes = [np.eye(len(labels), dtype="float32")[list(side)] for side in zip(*pairs, strict=True)]
    apart = node.emit(relax.op.expand_dims(is_first, [2]))
    given = node.emit(relax.op.where(apart, relax.const(votes[0]), relax.const(votes[1])))
    label = labelled(node, node.emit(relax.op.sum(given, [1])), labels)
    if len(labels) == 2:
        scores = node.emit(relax.op.concat([node.emit(relax.op.negative(scores)), scores], 1))
    return relax.Tuple([label, scores])


def _of_pairs(weights: np.ndarray, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """The weights of all vectors for each pair of classes.

    A vector has one weight for each other class; those for the classes behind its own stand one row before.
    """
    by_other = weights.reshape(len(counts) - 1, -1)
    owners = np.repeat(np.arange(len(counts)), counts)
    columns = [
        np.where(owners == left, by_other[right - 1], np.where(owners == right, by_other[left], 0))
        for left, right in pairs
    ]
    return np.stack(columns, 1).astype("float32")


def _require_plain(node: OnnxNode) -> None:
    name = node.text("post_transform", "NONE")
    node.require(name == "NONE", f"has the attribute 'post_transform' of {name!r}, which is not supported")


def _vectors(node: OnnxNode, count: int) -> np.ndarray:
    """The support vectors, one a row; without any, an empty matrix of the number of features."""
    width = node.shape(features(node))[1]
    numbers = np.asarray(node.numbers("support_vectors"), "float32")
    if not isinstance(width, int) or numbers.size != count * width:
        raise node.declined(f"has {numbers.size} numbers for {count} support vectors of {width} features")
    return numbers.reshape(count, width)


def _rho(node: OnnxNode, count: int) -> tuple[float, ...]:
    rho = node.numbers("rho")
    node.require(len(rho) == count, f"has {len(rho)} numbers in 'rho'; it should have {count}")
    return rho


def _kernel(node: OnnxNode, vectors: np.ndarray) -> relax.Expr:
    """The kernel of each row of features and each support vector."""
    data, name = features(node), node.text("kernel_type", "LINEAR")
    gamma, coefficient, degree = (*node.numbers("kernel_params"), 0.0, 0.0, 0.0)[:3]
    if name == "RBF":
        # As the sum of squares of differences, because the expanded square cancels.
        apart = node.emit(relax.op.expand_dims(data, [1]))
        between = node.emit(relax.op.subtract(apart, relax.const(vectors)))
        distances = node.emit(relax.op.sum(node.emit(relax.op.multiply(between, between)), [2]))
        return relax.op.exp(node.emit(relax.op.multiply(distances, single(-gamma))))
    products = node.emit(relax.op.matmul(data, relax.const(np.ascontiguousarray(vectors.T))))
    if name == "LINEAR":
        return products
    node.require(name in ("POLY", "SIGMOID"), f"has the attribute 'kernel_type' of {name!r}")
    scaled = node.emit(relax.op.multiply(products, single(gamma)))
    moved = node.emit(relax.op.add(scaled, single(coefficient)))
    return relax.op.tanh(moved) if name == "SIGMOID" else relax.op.power(moved, single(degree))
