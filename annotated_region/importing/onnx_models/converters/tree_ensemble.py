"""`TreeEnsemble` (``ai.onnx.ml`` 5): forests whose leaves and inner nodes are two tables.

It becomes the table of nodes of `trees`, with the leaves behind the inner nodes. A node that asks for one of
several numbers becomes one for each::

    feature in {2, 5} ? yes : no        feature == 2 ? yes : (feature == 5 ? yes : no)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.classical import CLASSICAL, transformed_by
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.trees import (
    COMPARISONS,
    MOST_WEIGHTS,
    REDUCTIONS,
    Forest,
    chosen,
    is_scored,
    steps_of,
)

__all__: list[str] = []

_MEMBER = "BRANCH_MEMBER"
_MODES = (*COMPARISONS, _MEMBER)
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = {0: "NONE", 3: "SOFTMAX_ZERO", 4: "PROBIT"}
"""The functions of scores; ONNX Runtime 1.32 exchanges 1 and 2, by definition SOFTMAX and LOGISTIC."""

_FLOATS = ("float32", "float64")


@converts(
    CLASSICAL,
    "TreeEnsemble",
    (1, 1),
    "aggregate_function leaf_targetids leaf_weights membership_values n_targets nodes_falseleafs "
    "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes "
    "nodes_splits nodes_trueleafs nodes_truenodeids post_transform tree_roots",
)
def _ensemble(node: OnnxNode) -> relax.Expr:
    """Sums, means or extremes of the weights of leaves over the trees."""
    dtype = dtype_of(node.tensor(0, _FLOATS, (2,)))
    targets = node.integer("n_targets", 1, 1)
    name = _AGGREGATES[node.integer("aggregate_function", 1, 0, len(_AGGREGATES) - 1)]
    transform = node.integer("post_transform", 0)
    node.require(
        transform in _TRANSFORMS,
        f"has the attribute 'post_transform' of {transform}, which ONNX Runtime takes for another function "
        "than ONNX's definition; put the function behind the node",
    )
    ids, numbers = node.integers("leaf_targetids"), _array(node, "leaf_weights", dtype)
    node.require(len(ids) == len(numbers) > 0, "has attributes of different lengths for its leaves")
    node.require(all(0 <= each < targets for each in ids), f"has weights for more than {targets} targets")
    forest = _forest(node, dtype, len(ids))
    node.require(len(forest.mode) * targets <= MOST_WEIGHTS, "has too many leaves and targets")
    weights, counts = (np.zeros((len(forest.mode), targets), kind) for kind in (dtype, "int64"))
    leaves = np.arange(len(forest.mode) - len(ids), len(forest.mode))
    weights[leaves, ids], counts[leaves, ids] = numbers, 1
    is_plain = name == "SUM" and bool((numbers >= 0).all())
    node.require(
        targets == 1 or (name in ("SUM", "AVERAGE") and (is_plain or is_scored(forest, counts))),
        "has rows without a weight for each target",
    )
    found = node.emit(REDUCTIONS[name](chosen(node, forest, weights), [1]))
    return transformed_by(node, found, _TRANSFORMS[transform])


@dataclass(frozen=True, slots=True)
class _Branches:
    """The inner nodes as they are in the model, and the numbers that each compares with."""

    modes: Sequence[str]
    features: Sequence[int]
    missing: Sequence[int]
    yes: np.ndarray
    no: np.ndarray
    asked: Sequence[np.ndarray]


def _forest(node: OnnxNode, dtype: str, leaves: int) -> Forest:
    """One node for each number that a node compares with, and the leaves behind them."""
    nodes = _branches(node, dtype)
    sizes = [len(each) for each in nodes.asked]
    starts = np.cumsum([0, *sizes])
    count, places = int(starts[-1]), np.concatenate([starts[:-1], starts[-1] + np.arange(leaves)])
    sides = (_successors(node, side, len(sizes), leaves) for side in (nodes.yes, nodes.no))
    left, right = (np.repeat(places[side], sizes) for side in sides)
    goes_on = np.ones(count, bool)
    goes_on[starts[1:] - 1] = False
    right[goes_on] = np.flatnonzero(goes_on) + 1
    behind = np.arange(count, count + leaves)
    left, right = np.concatenate([left, behind]), np.concatenate([right, behind])
    roots = node.integers("tree_roots")
    node.require(bool(roots) and 0 <= min(roots) <= max(roots) < len(sizes), "has roots that are no nodes")
    modes = ["BRANCH_EQ" if mode == _MEMBER else mode for mode in nodes.modes]
    starting = starts[list(roots)]
    depth = steps_of(node, starting, left, right, np.arange(len(left)) >= count)
    return Forest(
        places={},
        tree=_trees(node, starting, left, right, depth),
        roots=starting,
        depth=depth,
        feature=np.concatenate([np.repeat(nodes.features, sizes), np.zeros(leaves, "int64")]),
        value=np.concatenate([*nodes.asked, np.zeros(leaves, dtype)]),
        mode=np.concatenate([np.repeat(modes, sizes), np.repeat("LEAF", leaves)]),
        left=left,
        right=right,
        takes_missing=np.concatenate([np.repeat(nodes.missing, sizes), np.zeros(leaves, "int64")]) != 0,
    )


def _branches(node: OnnxNode, dtype: str) -> _Branches:
    """The attributes of inner nodes; a successor is the number of a node, or -1 - the number of a leaf."""
    modes, splits = _array(node, "nodes_modes", "uint8"), _array(node, "nodes_splits", dtype)
    features, *sides = (
        node.integers(f"nodes_{name}")
        for name in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    )
    missing = node.integers("nodes_missing_value_tracks_true") or (0,) * len(modes)
    node.require(
        0 < len(modes) == len(splits) and {*map(len, (features, missing, *sides))} == {len(modes)},
        "has attributes of different lengths for its nodes",
    )
    node.require(modes.max() < len(_MODES), f"has nodes of the mode {modes.max()}, which is not supported")
    node.require(all(each >= 0 for side in sides for each in side), "has a successor that is no node")
    yes, no = (
        np.where(np.array(leaf) != 0, -1 - np.array(to), np.array(to))
        for to, leaf in zip(sides[:2], sides[2:], strict=True)
    )
    names = [_MODES[mode] for mode in modes]
    sets = iter(_members(node, dtype, names.count(_MEMBER)))
    asked = [next(sets) if name == _MEMBER else splits[[place]] for place, name in enumerate(names)]
    return _Branches(names, features, missing, yes, no, asked)


def _members(node: OnnxNode, dtype: str, count: int) -> list[np.ndarray]:
    """The sets of numbers of the nodes that ask for members, which NaN separates."""
    if not count:
        return []
    numbers = _array(node, "membership_values", dtype)
    ends = np.flatnonzero(np.isnan(numbers))
    sets = [each[~np.isnan(each)] for each in np.split(numbers, ends)]
    found = [each for each in sets if each.size]
    node.require(len(found) == count, f"has {len(found)} sets of members for {count} nodes")
    return found


def _successors(node: OnnxNode, side: np.ndarray, nodes: int, leaves: int) -> np.ndarray:
    """Places in the nodes with the leaves behind them."""
    node.require(bool((side < nodes).all()), "has a successor that is no node")
    node.require(bool((side >= -leaves).all()), "has a successor that is no leaf")
    return np.where(side < 0, nodes - 1 - side, side)


def _trees(node: OnnxNode, roots: np.ndarray, left: np.ndarray, right: np.ndarray, depth: int) -> np.ndarray:
    """The number of the tree of each node, -1 for those of none."""
    tree = np.full(len(left), -1)
    places, numbers = roots, np.arange(len(roots))
    for _ in range(depth + 1):
        is_its_own = (tree[places] == -1) | (tree[places] == numbers)
        node.require(
            bool(is_its_own.all()) and len(np.unique(places)) == len(places), "has a node of two trees"
        )
        tree[places] = numbers
        pairs = np.stack([np.concatenate([left[places], right[places]]), np.tile(numbers, 2)])
        places, numbers = np.unique(pairs, axis=1)
    return tree


def _array(node: OnnxNode, name: str, dtype: str) -> np.ndarray:
    """An attribute that is a vector of a type."""
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != attribute.TENSOR:
        raise node.declined(f"lacks its attribute {name!r}, a tensor")
    found: np.ndarray = numpy_helper.to_array(attribute.t)
    node.require(
        found.ndim == 1 and found.dtype == dtype,
        f"has an attribute {name!r} that is no vector of {dtype}",
    )
    return found
