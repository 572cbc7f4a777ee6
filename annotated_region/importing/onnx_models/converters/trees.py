"""`TreeEnsembleClassifier` and `TreeEnsembleRegressor`: forests and boosted trees, all trees side by side.

The nodes of all trees stand in one table. Each row of features has one current node for each tree, at first
the roots, and each step goes on to one of two successors; leaves are their own::

    place = roots                                   (rows, trees)
    place = where(features[feature[place]] <= value[place], left[place], right[place])     depth times
    sum of weights[place] over the trees            (rows, targets)

A step is a few gathers and comparisons, which targets claim, and comparisons are exact, in the type of the
features, so the leaves are those of ONNX Runtime; sums may round otherwise. Where both of two classes have
weights, its label is the second one if that has a score above 0; here it is that of the highest score, as in
ONNX's definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.classical import (
    CLASSICAL,
    compared_features,
    labelled,
    single,
    transformed,
)
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__ = ["COMPARISONS", "MOST_WEIGHTS", "REDUCTIONS", "Forest", "chosen", "is_scored", "steps_of"]

_NODES = (
    "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes "
    "nodes_nodeids nodes_treeids nodes_truenodeids nodes_values"
)
_DEEPEST = 64
MOST_WEIGHTS = 2**26
"""The maximum number of weights."""

COMPARISONS: Mapping[str, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "BRANCH_LEQ": relax.op.less_equal,
    "BRANCH_LT": relax.op.less,
    "BRANCH_GTE": relax.op.greater_equal,
    "BRANCH_GT": relax.op.greater,
    "BRANCH_EQ": relax.op.equal,
    "BRANCH_NEQ": relax.op.not_equal,
}
"""The comparison of a feature with the number of a node, by the name of its mode."""

REDUCTIONS = {"SUM": relax.op.sum, "AVERAGE": relax.op.mean, "MIN": relax.op.min, "MAX": relax.op.max}


@dataclass(frozen=True, slots=True)
class Forest:
    """The nodes of all trees, by their places in one table.

    Attributes
    ----------
    places
        The place of each node, by the numbers of its tree and of itself.
    tree
        The number of the tree of each node, from 0; -1 for a node of no tree.
    roots
        The place of the root of each tree.
    depth
        The number of steps from a root to the farthest leaf.
    feature, value, mode, left, right, takes_missing
        For each node the feature to compare, the number and the name of the comparison, the successors if it
        holds and if not, and whether NaN counts as holding.
    """

    places: Mapping[tuple[int, int], int]
    tree: np.ndarray
    roots: np.ndarray
    depth: int
    feature: np.ndarray
    value: np.ndarray
    mode: np.ndarray
    left: np.ndarray
    right: np.ndarray
    takes_missing: np.ndarray


@converts(
    CLASSICAL,
    "TreeEnsembleRegressor",
    (1, 1),
    f"{_NODES} aggregate_function base_values n_targets post_transform target_ids target_nodeids "
    "target_treeids target_weights",
)
def _regression(node: OnnxNode) -> relax.Expr:
    """Sums, means or extremes of the weights over the trees, plus the base values."""
    targets = node.integer("n_targets", 1, 1)
    name = node.text("aggregate_function", "SUM")
    node.require(name in REDUCTIONS, f"has the attribute 'aggregate_function' of {name!r}")
    forest = _forest(node)
    weights, counts = _weights(node, forest, "target", targets)
    node.require(
        name in ("SUM", "AVERAGE") or bool((counts[_leaves(forest)] == 1).all()),
        f"has leaves without a weight for each target, and the attribute 'aggregate_function' of {name!r}",
    )
    _require_scores(node, forest, counts)
    found = node.emit(REDUCTIONS[name](chosen(node, forest, weights), [1]))
    return transformed(node, _with_base(node, found, targets))


@converts(
    CLASSICAL,
    "TreeEnsembleClassifier",
    (1, 1),
    f"{_NODES} base_values class_ids class_nodeids class_treeids class_weights classlabels_int64s "
    "classlabels_strings post_transform",
)
def _classification(node: OnnxNode) -> relax.Expr:
    """The class of the highest score, and the scores."""
    labels = node.integers("classlabels_int64s")
    node.require(bool(labels), "has no classes that are numbers; those with names are not supported")
    forest = _forest(node)
    weights, counts = _weights(node, forest, "class", len(labels))
    sums = node.emit(relax.op.sum(chosen(node, forest, weights), [1]))
    if len(labels) == 2 and len(set(node.integers("class_ids"))) == 1:
        return _of_two(node, sums, labels)
    _require_scores(node, forest, counts)
    scores = _with_base(node, sums, len(labels))
    return relax.Tuple([labelled(node, scores, labels), node.emit(transformed(node, scores))])


def _require_scores(node: OnnxNode, forest: Forest, counts: np.ndarray) -> None:
    """Decline weights by which a row may have none for a target, where ONNX Runtime leaves the target out.

    That makes no difference for sums without a base value that are at least 0, as those of forests.
    """
    is_plain = not any(node.numbers("base_values")) and all(
        weight >= 0 for name in ("class", "target") for weight in node.numbers(f"{name}_weights")
    )
    node.require(is_plain or is_scored(forest, counts), "has rows without a weight for each target or class")


def is_scored(forest: Forest, counts: np.ndarray) -> bool:
    """Whether each target has a tree whose leaves all have a weight for it."""
    leaves = np.flatnonzero(_leaves(forest) & (forest.tree >= 0))
    lacks = np.zeros((int(forest.tree.max()) + 1, counts.shape[1]), bool)
    np.logical_or.at(lacks, forest.tree[leaves], counts[leaves] == 0)
    return not bool(lacks.all(axis=0).any())


def _of_two(node: OnnxNode, sums: relax.Expr, labels: tuple[int, ...]) -> relax.Expr:
    """Two classes with weights for the first one only, which are those of the second class.

    If no weight is negative, the score is a probability, else its sign decides. Converters write forests so.
    Weights for the second class only would leave the score of the first one at 0.
    """
    base = node.numbers("base_values")
    node.require(len(base) < 2, "has two base values, and weights for one class")
    is_first = node.integers("class_ids")[0] == 0
    node.require(is_first, "has weights for the second one of two classes alone, which is not supported")
    score = _with_base(node, node.emit(relax.op.take(sums, relax.const([0], "int64"), 1)), 1)
    is_share = all(weight >= 0 for weight in node.numbers("class_weights"))
    name = node.text("post_transform", "NONE")
    node.require(
        name == "NONE" or (name == "LOGISTIC" and not is_share),
        f"has weights for one of two classes, and the attribute 'post_transform' of {name!r}",
    )
    other = relax.op.subtract(single(1.0), score) if is_share else relax.op.negative(score)
    scores = node.emit(relax.op.concat([node.emit(other), score], 1))
    is_second = node.emit(relax.op.greater(score, single(0.5 if is_share else 0.0)))
    flat = node.emit(relax.op.squeeze(is_second, [1]))
    first, second = (relax.const(label, "int64") for label in labels)
    label = node.emit(relax.op.where(flat, second, first))
    return relax.Tuple([label, node.emit(transformed(node, scores))])


def _with_base(node: OnnxNode, sums: relax.Expr, targets: int) -> relax.Expr:
    base = np.asarray(node.numbers("base_values"), "float32")
    if not base.size:
        return sums
    node.require(base.size == targets, f"has {base.size} base values for {targets} targets")
    return node.emit(relax.op.add(sums, relax.const(base)))


def _forest(node: OnnxNode) -> Forest:
    """The nodes of the attributes; declines trees that are none."""
    trees, numbers, feature, left, right = (
        node.integers(f"nodes_{name}")
        for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    )
    modes, values = node.texts("nodes_modes"), node.numbers("nodes_values")
    missing = node.integers("nodes_missing_value_tracks_true") or (0,) * len(trees)
    columns = (numbers, feature, left, right, modes, values, missing)
    node.require(
        bool(trees) and all(len(each) == len(trees) for each in columns),
        "has attributes of different lengths for its nodes",
    )
    unknown = set(modes) - {*COMPARISONS, "LEAF"}
    node.require(not unknown, f"has nodes of the modes {', '.join(sorted(unknown))}, which are not supported")
    places = {key: place for place, key in enumerate(zip(trees, numbers, strict=True))}
    node.require(len(places) == len(trees), "has two nodes of one number in a tree")
    is_leaf = np.array([mode == "LEAF" for mode in modes])
    successors = [
        [place if leaf else places.get((tree, at), -1) for place, (leaf, tree, at) in enumerate(rows)]
        for rows in (list(zip(is_leaf, trees, side, strict=True)) for side in (left, right))
    ]
    node.require(min(map(min, successors)) >= 0, "has a successor that is no node of its tree")
    # ONNX Runtime takes the first node of a tree for its root.
    roots = np.array([places[tree, number] for tree, number in _first_nodes(trees, numbers)])
    yes, no = (np.array(side, "int64") for side in successors)
    return Forest(
        places=places,
        tree=np.unique(trees, return_inverse=True)[1],
        roots=roots,
        depth=steps_of(node, roots, yes, no, is_leaf),
        feature=np.where(is_leaf, 0, np.array(feature, "int64")),
        value=np.array(values, "float32"),
        mode=np.array(modes),
        left=yes,
        right=no,
        takes_missing=np.array(missing, "bool") & ~is_leaf,
    )


def _first_nodes(trees: tuple[int, ...], numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    for tree, number in zip(trees, numbers, strict=True):
        first.setdefault(tree, number)
    return list(first.items())


def steps_of(node: OnnxNode, roots: np.ndarray, yes: np.ndarray, no: np.ndarray, is_leaf: np.ndarray) -> int:
    """The number of steps after which each path from a root is at a leaf."""
    level, depth = np.unique(roots), 0
    while not is_leaf[level].all():
        depth += 1
        node.require(depth <= _DEEPEST, f"has trees of more than {_DEEPEST} steps, or with cycles")
        level = np.unique(np.concatenate([yes[level], no[level]]))
    return depth


def _leaves(forest: Forest) -> np.ndarray:
    is_leaf: np.ndarray = forest.mode == "LEAF"
    return is_leaf


def _weights(node: OnnxNode, forest: Forest, what: str, targets: int) -> tuple[np.ndarray, np.ndarray]:
    """The weight of each node for each target, and how many weights it has for it."""
    trees, numbers, ids = (node.integers(f"{what}_{name}") for name in ("treeids", "nodeids", "ids"))
    given = node.numbers(f"{what}_weights")
    node.require(
        len({len(trees), len(numbers), len(ids), len(given)}) == 1, "has attributes of different lengths"
    )
    node.require(all(0 <= each < targets for each in ids), f"has weights for more than {targets} targets")
    node.require(len(forest.value) * targets <= MOST_WEIGHTS, "has too many leaves and targets")
    places = [forest.places.get(key, -1) for key in zip(trees, numbers, strict=True)]
    node.require(
        all(place >= 0 and forest.mode[place] == "LEAF" for place in places), "has weights that no leaf has"
    )
    weights, counts = (
        np.zeros((len(forest.value), targets), "float32"),
        np.zeros((len(forest.value), targets), "int64"),
    )
    np.add.at(weights, (places, ids), np.asarray(given, "float32"))
    np.add.at(counts, (places, ids), 1)
    return weights, counts


def chosen(node: OnnxNode, forest: Forest, weights: np.ndarray) -> relax.Expr:
    """The weights of the leaf of each tree: (rows, trees, targets)."""
    data = compared_features(node)
    rows, width = node.shape(data)
    # Nothing checks places while they are read, so each feature must exist in each call.
    node.require(
        isinstance(width, int) or not forest.depth,
        f"has {width} features; give it a number (shape_dict, --shape)",
    )
    least, most = int(forest.feature.min()), int(forest.feature.max())
    is_inside = not forest.depth or (least >= 0 and isinstance(width, int) and most < width)
    node.require(is_inside, f"reads feature {min(least, 0) or most} of {width}")
    trees = len(forest.roots)
    place: relax.Expr = node.emit(
        relax.op.broadcast_to(relax.const(forest.roots[None], "int64"), relax.ShapeExpr([rows, trees]))
    )
    for _ in range(forest.depth):
        place = node.emit(_next(node, forest, data, place))
    return node.emit(relax.op.take(relax.const(weights, str(weights.dtype)), place, 0))


def _next(node: OnnxNode, forest: Forest, data: relax.Expr, place: relax.Expr) -> relax.Expr:
    def of_node(table: np.ndarray) -> relax.Expr:
        return node.emit(relax.op.take(relax.const(table, str(table.dtype)), place, 0))

    found = node.emit(relax.op.gather_elements(data, of_node(forest.feature), 1))
    value = of_node(forest.value.astype(dtype_of(data)))
    modes = sorted(set(forest.mode) - {"LEAF"})
    holds = node.emit(COMPARISONS[modes[0]](found, value))
    for mode in modes[1:]:
        other = node.emit(COMPARISONS[mode](found, value))
        holds = node.emit(relax.op.where(of_node(forest.mode == mode), other, holds))
    if forest.takes_missing.any():
        is_missing = node.emit(relax.op.isnan(found))
        takes = node.emit(relax.op.logical_and(is_missing, of_node(forest.takes_missing)))
        holds = node.emit(relax.op.logical_or(holds, takes))
    return relax.op.where(holds, of_node(forest.left), of_node(forest.right))
