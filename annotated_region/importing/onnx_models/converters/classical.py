"""Operators of the domain ``ai.onnx.ml`` that prepare features, and linear models of them.

Converters of scikit-learn write them. Their float attributes are float32, and so are their results; other
numbers are converted first, but for those of float64 where ONNX Runtime computes with them (`Scaler`,
comparisons of trees). Strings and maps are no tensors and are declined.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__ = [
    "CLASSICAL",
    "TRANSFORMS",
    "compared_features",
    "features",
    "labelled",
    "single",
    "transformed",
    "transformed_by",
]

CLASSICAL = "ai.onnx.ml"
"""The domain of ONNX's operators for classical models."""

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
"""The functions of scores that converters of models support; ``PROBIT`` is missing."""

_NUMBERS = ("float32", "float64", "int32", "int64")
_LINEAR = "coefficients intercepts post_transform"


@converts(CLASSICAL, "Scaler", (1, 1), "offset scale")
def _scaled(node: OnnxNode) -> relax.Expr:
    """The difference from the offset, times the scale; numbers of float64 are rounded once, behind both."""
    given = node.tensor(0, _NUMBERS, (1, 2))
    data = given if dtype_of(given) == "float64" else _in_single_precision(node, given)
    offset, scale = (_row(node, name, data) for name in ("offset", "scale"))
    scaled = node.emit(relax.op.multiply(node.emit(relax.op.subtract(data, offset)), scale))
    return _in_single_precision(node, scaled)


@converts(CLASSICAL, "Normalizer", (1, 1), "norm")
def _normalized(node: OnnxNode) -> relax.Expr:
    """Each row divided by a norm; rows of the norm 0 stay as they are."""
    data = _in_single_precision(node, node.tensor(0, _NUMBERS, (1, 2)))
    norm = node.text("norm", "MAX")
    match norm:
        case "MAX":
            # The largest number, not the largest magnitude, as ONNX Runtime computes it.
            size = relax.op.max(data, [-1], keepdims=True)
        case "L1":
            size = relax.op.sum(relax.op.abs(data), [-1], keepdims=True)
        case "L2":
            size = relax.op.sqrt(relax.op.sum(relax.op.multiply(data, data), [-1], keepdims=True))
        case _:
            raise node.declined(f"has the attribute 'norm' of {norm!r}, which is not supported")
    length, nothing = node.emit(size), single(0.0)
    is_nothing = node.emit(relax.op.equal(length, nothing))
    return relax.op.divide(data, node.emit(relax.op.where(is_nothing, single(1.0), length)))


@converts(CLASSICAL, "Binarizer", (1, 1), "threshold")
def _binarized(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0, FLOATS)
    is_above = relax.op.greater(data, relax.const(node.number("threshold", 0.0), dtype_of(data)))
    return relax.op.astype(node.emit(is_above), dtype_of(data))


@converts(
    CLASSICAL,
    "Imputer",
    (1, 1),
    "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64",
)
def _imputed(node: OnnxNode) -> relax.Expr:
    """The given value, by default 0, is replaced."""
    data = node.tensor(0, ("float32", "int64"), (1, 2))
    if dtype_of(data) == "int64":
        values = np.asarray(node.integers("imputed_value_int64s"), "int64")
        is_missing = relax.op.equal(data, relax.const(node.integer("replaced_value_int64", 0), "int64"))
    else:
        values = np.asarray(node.numbers("imputed_value_floats"), "float32")
        replaced = node.number("replaced_value_float", 0.0, is_finite=False)
        is_missing = relax.op.isnan(data) if np.isnan(replaced) else relax.op.equal(data, single(replaced))
    _require_width(node, len(values), data, "replacements")
    return relax.op.where(node.emit(is_missing), relax.const(values, str(values.dtype)), data)


@converts(CLASSICAL, "FeatureVectorizer", (1, 2**16), "inputdimensions")
def _joined(node: OnnxNode) -> relax.Expr:
    parts = [features(node, place) for place in range(len(node.inputs))]
    widths = node.integers("inputdimensions")
    found = [node.shape(part)[-1] for part in parts]
    node.require(tuple(found) == widths, f"joins inputs of {found} features, and names {list(widths)}")
    return relax.op.concat(parts, -1) if len(parts) > 1 else parts[0]


@converts(CLASSICAL, "ArrayFeatureExtractor", (2, 2))
def _extracted(node: OnnxNode) -> relax.Expr:
    """Elements of the last axis, by places that may be computed; a vector becomes one row."""
    data, places = node.tensor(0, ranks=(1, 2, 3)), node.tensor(1, ("int64",))
    count, known = node.shape(data)[-1], node.constant(places)
    if known is not None:
        is_inside = isinstance(count, int) and bool(((known >= 0) & (known < count)).all())
        node.require(is_inside, f"has the places {known.ravel().tolist()} of {count} features")
    flat = places if rank_of(places) == 1 else node.emit(relax.op.reshape(places, [-1]))
    taken = relax.op.take(data, flat, rank_of(data) - 1)
    return relax.op.expand_dims(node.emit(taken), [0]) if rank_of(data) == 1 else taken


@converts(CLASSICAL, "OneHotEncoder", (1, 1), "cats_int64s zeros")
def _one_hot(node: OnnxNode) -> relax.Expr:
    """Of whole numbers; one that is no category gives zeros."""
    data = node.tensor(0, _NUMBERS)
    node.integer("zeros", 1, 1, 1)
    categories = np.asarray(node.integers("cats_int64s"), "int64")
    whole = data if dtype_of(data) == "int64" else node.emit(relax.op.astype(data, "int64"))
    apart = node.emit(relax.op.expand_dims(whole, [rank_of(data)]))
    return relax.op.astype(node.emit(relax.op.equal(apart, relax.const(categories, "int64"))), "float32")


@converts(
    CLASSICAL,
    "LabelEncoder",
    (1, 1),
    "keys_floats keys_int64s values_floats values_int64s default_float default_int64",
)
def _encoded(node: OnnxNode) -> relax.Expr:
    """The value of an equal key; of an unknown one, the default."""
    data = node.tensor(0, ("int64", "float32"))
    is_whole = dtype_of(data) == "int64"
    keys = np.asarray(
        node.integers("keys_int64s") if is_whole else node.numbers("keys_floats"), dtype_of(data)
    )
    floats, integers = node.numbers("values_floats"), node.integers("values_int64s")
    values = np.asarray(floats, "float32") if floats else np.asarray(integers, "int64")
    node.require(
        0 < len(keys) == len(values) == len(set(keys.tolist())),
        f"has {len(keys)} keys of its input's type, and {len(values)} values that are numbers",
    )
    default = node.number("default_float", 0.0) if floats else node.integer("default_int64", -1)
    apart = node.emit(relax.op.expand_dims(data, [rank_of(data)]))
    is_hit = node.emit(relax.op.equal(apart, relax.const(keys, dtype_of(data))))
    nothing, other = (relax.const(number, str(values.dtype)) for number in (0, default))
    hits = node.emit(relax.op.where(is_hit, relax.const(values, str(values.dtype)), nothing))
    counts = node.emit(relax.op.sum(node.emit(relax.op.astype(is_hit, "int64")), [-1]))
    is_known = node.emit(relax.op.greater(counts, relax.const(0, "int64")))
    return relax.op.where(is_known, node.emit(relax.op.sum(hits, [-1])), other)


@converts(CLASSICAL, "LinearRegressor", (1, 1), f"{_LINEAR} targets")
def _regression(node: OnnxNode) -> relax.Expr:
    return transformed(node, _linear(node, node.integer("targets", 1, 1)))


@converts(
    CLASSICAL, "LinearClassifier", (1, 1), f"{_LINEAR} classlabels_ints classlabels_strings multi_class"
)
def _classification(node: OnnxNode) -> relax.Expr:
    """The class of the highest score, and the scores."""
    labels = node.integers("classlabels_ints")
    node.require(bool(labels), "has no classes that are numbers; those with names are not supported")
    scores = _linear(node, len(labels))
    return relax.Tuple([labelled(node, scores, labels), node.emit(transformed(node, scores))])


@converts(CLASSICAL, "ZipMap", (1, 1), "classlabels_int64s classlabels_strings")
def _zipped(node: OnnxNode) -> relax.Expr:
    raise node.declined(
        "makes maps from classes to scores, which are no tensors; convert the model without it "
        "(options={'zipmap': False} in skl2onnx, zipmap=False in onnxmltools)"
    )


def features(node: OnnxNode, position: int = 0) -> relax.Expr:
    """An input of features in float32; a vector of them is one row."""
    return _rows(node, _in_single_precision(node, node.tensor(position, _NUMBERS, (1, 2))))


def compared_features(node: OnnxNode) -> relax.Expr:
    """The same, but those in float64 stay so: a comparison in float32 would take near numbers for equal."""
    if dtype_of(node.tensor(0, _NUMBERS, (1, 2))) == "float64":
        return _rows(node, node.tensor(0))
    return features(node)


def _rows(node: OnnxNode, data: relax.Expr) -> relax.Expr:
    return data if rank_of(data) == 2 else node.emit(relax.op.expand_dims(data, [0]))


def _in_single_precision(node: OnnxNode, data: relax.Expr) -> relax.Expr:
    return data if dtype_of(data) == "float32" else node.emit(relax.op.astype(data, "float32"))


def single(number: float) -> relax.Expr:
    """A constant of float32."""
    return relax.const(number, "float32")


def labelled(node: OnnxNode, scores: relax.Expr, labels: tuple[int, ...]) -> relax.Expr:
    """The class of the highest score of each row, the first of equal ones."""
    places = node.emit(relax.op.argmax(scores, 1))
    if labels == tuple(range(len(labels))):
        return places
    return node.emit(relax.op.take(relax.const(np.asarray(labels), "int64"), places, 0))


def transformed(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The function of scores that the attribute ``post_transform`` names."""
    return transformed_by(node, scores, node.text("post_transform", "NONE"))


def transformed_by(node: OnnxNode, scores: relax.Expr, name: str) -> relax.Expr:
    """The function of scores that has this name in the attribute ``post_transform``."""
    node.require(
        name in TRANSFORMS, f"has the attribute 'post_transform' of {name!r}, which is not supported"
    )
    functions: dict[str, Callable[[relax.Expr], relax.Expr]] = {
        "SOFTMAX": lambda each: relax.op.nn.softmax(each, -1),
        "LOGISTIC": relax.op.sigmoid,
        "SOFTMAX_ZERO": lambda each: _softmax_of_others(node, each),
    }
    return functions[name](scores) if name in functions else scores


def _softmax_of_others(node: OnnxNode, scores: relax.Expr) -> relax.Expr:
    """The softmax over scores that are not 0, which stay 0."""
    nothing, least = (relax.const(number, dtype_of(scores)) for number in (0.0, -np.inf))
    is_nothing = node.emit(relax.op.equal(scores, nothing))
    others = node.emit(relax.op.where(is_nothing, least, scores))
    shares = node.emit(relax.op.nn.softmax(others, -1))
    return relax.op.where(is_nothing, nothing, shares)


def _linear(node: OnnxNode, targets: int) -> relax.Expr:
    """The products with the coefficients, a row for each target, plus the intercepts."""
    data = features(node)
    width = node.shape(data)[1]
    numbers = np.asarray(node.numbers("coefficients"), "float32")
    node.require(
        isinstance(width, int) and numbers.size == targets * width,
        f"has {numbers.size} coefficients for {targets} targets of {width} features",
    )
    product = relax.op.matmul(data, relax.const(np.ascontiguousarray(numbers.reshape(targets, -1).T)))
    intercepts = np.asarray(node.numbers("intercepts"), "float32")
    if not intercepts.size:
        return node.emit(product)
    node.require(intercepts.size == targets, f"has {intercepts.size} intercepts for {targets} targets")
    return node.emit(relax.op.add(node.emit(product), relax.const(intercepts)))


def _row(node: OnnxNode, name: str, data: relax.Expr) -> relax.Expr:
    """An attribute that is one number, or one for each feature."""
    values = np.asarray(node.numbers(name), "float32")
    _require_width(node, len(values), data, f"numbers in {name!r}")
    return relax.const(values, dtype_of(data))


def _require_width(node: OnnxNode, count: int, data: relax.Expr, what: str) -> None:
    width = node.shape(data)[-1]
    node.require(count in (1, width) and count > 0, f"has {count} {what} for {width} features")
