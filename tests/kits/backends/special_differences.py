"""Where targets make something else of NaN, infinity and their like than TVM does: what, and by which rule.

A rule is a formula of the operands. A target's answer has to be TVM's, or the formula's, number by number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from kits.backends.special_agreement import agree
from kits.backends.special_cases import LARGEST, ordinary
from kits.backends.special_formulas import (
    LOWEST,
    NOWHERE,
    batch_norm,
    convolution,
    first_extreme,
    folded_batch_norm,
    grouped_norm,
    largest_in_window,
    overflowed_norm,
    silu,
    transposed_convolution,
)

__all__ = ["DIFFERENCES", "Difference"]

Array = np.ndarray
Formula = Callable[..., Array]
ONNX = ("onnxruntime", "tensorrt")
ALL = ("dnnl", *ONNX)


@dataclass(frozen=True, slots=True)
class Difference:
    """One rule.

    Attributes
    ----------
    targets
        Whose.
    cases
        A regular expression of their whole names.
    reason
        What TVM and the target compute.
    formula
        The target's answer, from the operands; `NOWHERE` where there is no rule.
    """

    targets: tuple[str, ...]
    cases: str
    reason: str
    formula: Formula

    def concerns(self, target: str, case: str) -> bool:
        """Whether it is about a case of a target."""
        return target in self.targets and re.fullmatch(self.cases, case) is not None

    def explains(self, given: list[Array], found: Array, *, is_sum: bool) -> Array:
        """Which numbers are the formula's."""
        with np.errstate(all="ignore"):
            instead = np.broadcast_to(self.formula(*given), found.shape)
        has_rule = instead != NOWHERE
        return np.asarray(has_rule & agree(np.where(has_rule, instead, math.nan), found, is_sum=is_sum))


def alone(name: str) -> str:
    """The cases of a function, by itself and behind products."""
    return rf"((matmul|conv|product)_)?{name}"


def weights(*shape: int) -> Array:
    """The constant of the cases."""
    return np.asarray(ordinary(*shape).value.numpy())


# --- element by element: numpy keeps NaN, as ONNX does

BOUNDS: dict[str, Formula] = {
    alone("relu"): lambda x: np.maximum(x, 0),
    alone("clip"): lambda x: np.minimum(np.maximum(x, -1), 2),
    alone("relu6"): lambda x: np.minimum(np.maximum(x, 0), 6),
    alone("lower_bound"): lambda x: np.maximum(x, -1),
    alone("upper_bound"): lambda x: np.minimum(x, 2),
    alone("largest"): lambda x: np.maximum(x, 0.5),
    alone("largest_zero"): lambda x: np.maximum(x, 0),
    "clip_between_infinities": lambda x: x,
    "maximum_infinity": lambda x: np.maximum(x, math.inf),
    "maximum_minus_infinity": lambda x: np.maximum(x, -math.inf),
    "maximum_denormal": lambda x: np.maximum(x, np.float32(1e-41)),
    "minimum_infinity": lambda x: np.minimum(x, math.inf),
    "minimum_minus_infinity": lambda x: np.minimum(x, -math.inf),
    "minimum_denormal": lambda x: np.minimum(x, np.float32(1e-41)),
    r"maximum_(each|row|column|behind_matmul)": np.maximum,
    r"minimum_(each|row|column|behind_matmul)": np.minimum,
    "maximum_in_front_of_matmul": lambda a, b: np.maximum(b, a[:, :1]),
    "minimum_in_front_of_matmul": lambda a, b: np.minimum(b, a[:, :1]),
    "matmul_bias": lambda x, b: np.maximum(x @ weights(7, 19) + b, 0),
    "conv2d_bias_relu6": lambda x, b: np.minimum(
        np.maximum(convolution(x, weights(4, 3, 3, 3))[..., 1:-1, 1:-1] + b, 0), 6
    ),
    "conv2d_norm_relu": lambda x, a, b: np.maximum(
        folded_batch_norm(convolution(x, weights(4, 3, 3, 3))[..., 1:-1, 1:-1], a, b, weights(4), weights(4)),
        0,
    ),
}

UNEQUAL: dict[str, Formula] = {
    alone("not_equal_number"): lambda x: x != 0.5,
    r"not_equal_pair_(each|row|column|behind_matmul)": np.not_equal,
    "not_equal_pair_in_front_of_matmul": lambda a, b: b != a[:, :1],
}


# --- windows and extremes


def by_channel(x: Array, axis: int | tuple[int, ...], kind: Callable[..., Array]) -> Array:
    """A reduction that keeps its axis; quiet about rows without numbers."""
    return np.asarray(kind(x, axis=axis, keepdims=True))


def passing_over_nan(x: Array, axis: int | tuple[int, ...], sign: int) -> Array:
    """The largest or the least number, or NaN where there is none."""
    known = np.where(np.isnan(x), -math.inf, sign * x)
    has_number = (~np.isnan(x)).any(axis, keepdims=True)
    return np.where(has_number, sign * known.max(axis, keepdims=True), math.nan)


def extremes(name: str) -> dict[str, tuple[Formula, Formula]]:
    """By case: the extreme that keeps NaN, and the one that passes over it."""
    kind, sign = (np.max, 1) if name == "max" else (np.min, -1)
    axes: dict[str, int | tuple[int, ...]] = {"columns": 0, "rows": 1, "all": (0, 1)}
    return {
        f"{name}_of_{what}": (
            partial(by_channel, axis=axis, kind=kind),
            partial(passing_over_nan, axis=axis, sign=sign),
        )
        for what, axis in axes.items()
        if (name, what) != ("min", "all")
    }


EXTREMES = {**extremes("max"), **extremes("min")}
WINDOWS: dict[str, Formula] = {
    "max_pool[123]d": partial(largest_in_window, padding=0, empty=LOWEST),
    "max_pool[123]d_padded": partial(largest_in_window, padding=1, empty=LOWEST),
}


# --- norms

NORMS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "group_norm|group_norm_of_a_pixel|group_norm_channels_last": (2, lambda y: y),
    "group_norm_silu": (2, silu),
    "group_norm_relu": (2, lambda y: np.where(y > 0, y, 0)),
    "instance_norm": (6, lambda y: y),
}


def channels_first(x: Array) -> Array:
    """The data of `group_norm_channels_last`, as the norm gets it."""
    return -x.transpose(0, 3, 1, 2) if x.shape[1:] == (3, 3, 6) else x


def normed(groups: int, behind: Callable[[Array], Array], is_folded: bool = False) -> Formula:
    """A norm whose scale is multiplied by the inverse deviation, and what is computed of it."""
    return lambda x, a, b: behind(grouped_norm(channels_first(x), a, b, groups, is_folded=is_folded))


def overflowed(groups: int, behind: Callable[[Array], Array]) -> Formula:
    """A norm of numbers whose squares overflow, and what is computed of it."""

    def formula(x: Array, scale: Array, shift: Array) -> Array:
        norm = overflowed_norm(channels_first(x), scale, shift, groups)
        return np.where(norm == NOWHERE, NOWHERE, behind(norm))

    return formula


def of_layer(x: Array, _scale: Array, shift: Array) -> Array:
    """The shift where all numbers of a row are one large number."""
    is_one = (np.abs(x) == np.float32(LARGEST)).all(1, keepdims=True)
    return np.where(is_one, shift, NOWHERE)


def at_the_edge(kind: float) -> Formula:
    """The largest number, or infinity, where all values that are mixed are the largest number."""

    def formula(*operands: Array) -> Array:
        values = operands[2]
        is_edge = bool((np.abs(values) == np.float32(LARGEST)).all())
        return np.asarray(np.sign(values.reshape(-1)[0]) * kind if is_edge else NOWHERE)

    return formula


# --- quantization

QUANTIZED = {
    "quantize": -128,
    "quantize_to_uint8": 0,
    "quantize_by_channel": 0,
    "dequantize": -65.5,
    "quantized_(matmul|result|sum)": -65.5,
}
"""What becomes of NaN."""


def quantized_nan(value: float) -> Formula:
    """One number where an operand is NaN."""
    return lambda *operands: np.where(np.isnan(sum(operands)), value, NOWHERE)


# --- orders


def of_topk(x: Array, place: int, *, is_index: bool) -> Array:
    """What stands at a place of the order in which NaN is the largest; in no row without NaN."""
    order = np.argsort(-np.where(np.isnan(x), math.inf, x), 1, kind="stable")
    chosen = order if is_index else np.take_along_axis(x, order, 1)
    return np.where(np.isnan(x).any(1, keepdims=True), chosen[:, place : place + 1], NOWHERE)


def of_order(x: Array, place: int, *, axis: int, descending: bool, is_index: bool) -> Array:
    """What stands at a place of the order in which NaN is above infinity; nothing among ordinary numbers."""
    undefined = np.isnan(x)
    by_number = np.argsort(np.where(undefined, 0.0, -x if descending else x), axis, kind="stable")
    is_late = np.take_along_axis(undefined ^ descending, by_number, axis)
    order = np.take_along_axis(by_number, np.argsort(is_late, axis, kind="stable"), axis)
    chosen = order if is_index else np.take_along_axis(x, order, axis)
    is_ordinary = np.abs(x) < np.finfo("float32").max  # not so of NaN
    has_special = (~is_ordinary).any(axis, keepdims=True)
    return np.where(has_special, np.take(chosen, [place], axis), NOWHERE)


def between_infinities(x: Array) -> Array:
    """NaN where all neighbours are one infinity: a weight is 0."""
    return np.asarray(math.nan if np.isinf(x).all() else NOWHERE)


def all_of(targets: tuple[str, ...], formulas: dict[str, Formula], reason: str) -> tuple[Difference, ...]:
    """One difference for each formula, for the same reason."""
    return tuple(Difference(targets, cases, reason, formula) for cases, formula in formulas.items())


DIFFERENCES = (
    *all_of(ONNX, BOUNDS, "TVM's clip gives the upper bound, its maximum the second operand; ONNX keeps NaN"),
    *(
        Difference(("onnxruntime",), case, "no integer is NaN: TVM takes the largest, ONNX another one",
                   quantized_nan(value))
        for case, value in QUANTIZED.items()
    ),
    Difference(ONNX, "log_add_exp", "TVM's exponential overflows", np.maximum),
    *all_of(ALL, UNEQUAL, "TVM finds nothing unequal to NaN; IEEE 754 everything"),
    Difference(ALL, "times_zero", "TVM makes 0 of x * 0 before x is known", lambda x: x * np.float32(0)),
    Difference(ALL, "times_zero_plus_one", "likewise", lambda x: x * np.float32(0) + np.float32(1)),
    Difference(ONNX, "sign", "TVM's sign of NaN is 0; ONNX Runtime's is NaN", np.sign),
    Difference(
        ONNX,
        "prelu_each",
        "TVM multiplies 0 by the infinite slope; ONNX only what is below 0",
        lambda x, slopes: np.where(x < 0, x * slopes, x).reshape(1, -1),
    ),
    *all_of(ALL, WINDOWS, "NaN is not larger than what was found so far; TVM begins anew behind it"),
    Difference(
        ONNX,
        "max_pool[23]d_padded",
        "likewise, and windows of NaN alone are NaN, of minus infinity alone that",
        partial(largest_in_window, padding=1, empty=math.nan),
    ),
    *(
        Difference(
            ("onnxruntime",),
            f"max_pool[123]d{name}",
            "windows of NaN alone: the lowest number, with which ONNX Runtime begins, is doubled",
            partial(largest_in_window, padding=padding, empty=-math.inf),
        )
        for name, padding in (("", 0), ("_padded", 1))
    ),
    *all_of(
        ("dnnl",),
        {r"conv[123]d(_depthwise)?": convolution},
        "TVM multiplies the padding by weights that are not finite; constant ones are declined",
    ),
    *all_of(
        ALL,
        {r"conv[123]d_transpose": transposed_convolution},
        "TVM multiplies the zeros around the data by weights that are not finite",
    ),
    Difference(
        ONNX,
        "conv2d_infinite_weights",
        "likewise",
        lambda x: np.pad(x.sum(1, keepdims=True) * np.float32(math.inf), [(0, 0), (0, 0), (1, 1), (1, 1)]),
    ),
    *(
        Difference(ALL, "attention_.*", "means of the largest number: rounding decides whether they end",
                   at_the_edge(kind))
        for kind in (LARGEST, math.inf)
    ),
    Difference(
        ("dnnl",),
        "batch_norm",
        "TVM multiplies by the inverse deviation, then by the scale; oneDNN by their product",
        batch_norm,
    ),
    Difference(
        ONNX,
        "batch_norm",
        "likewise, and ONNX Runtime multiplies the mean by it before it is taken away",
        folded_batch_norm,
    ),
    Difference(
        ALL,
        "batch_norm_constant",
        "likewise, and the relu of a norm keeps NaN",
        lambda x: np.maximum(batch_norm(x, *[weights(6)] * 4), 0),
    ),
    *(
        Difference(("dnnl",), cases, "the scale is multiplied by the inverse deviation first", normed(*norm))
        for cases, norm in NORMS.items()
    ),
    Difference(
        ONNX,
        "group_norm_relu",
        "ONNX keeps NaN",
        lambda x, a, b: np.maximum(grouped_norm(x, a, b, 2, is_folded=False), 0),
    ),
    Difference(
        ONNX,
        "group_norm_relu",
        "squares that overflow: ONNX keeps NaN, if infinities were subtracted",
        lambda x, a, b: np.where(overflowed_norm(x, a, b, 2) == NOWHERE, NOWHERE, math.nan),
    ),
    *(
        Difference(ALL, cases, "squares that overflow: TVM subtracts infinities; others divide by one",
                   overflowed(*norm))
        for cases, norm in NORMS.items()
    ),
    Difference(
        ONNX,
        "instance_norm",
        "the scale is multiplied by the inverse deviation first, and the mean by that",
        normed(6, lambda y: y, is_folded=True),
    ),
    Difference(ONNX, "layer_norm", "squares that overflow: ONNX Runtime finds a variance of zero", of_layer),
    *(
        Difference(ALL, cases, "TVM forgets NaN when a number follows, and begins with the outermost finite "
                   "number; others keep NaN", keeping)
        for cases, (keeping, _) in EXTREMES.items()
    ),
    *(
        Difference(ONNX, cases, "ONNX Runtime's vectors forget NaN", passing)
        for cases, (_, passing) in EXTREMES.items()
    ),
    *(
        Difference(ONNX, "topk", "in ONNX Runtime NaN is one of the largest, in any order",
                   partial(of_topk, place=place, is_index=is_index))
        for place, is_index in product(range(3), (False, True))
    ),
    *(
        Difference(("dnnl",), "topk", "NaN is the largest; TVM's order depends on where it stands",
                   partial(of_order, place=place, axis=1, descending=True, is_index=is_index))
        for place, is_index in product(range(3), (False, True))
    ),
    *(
        Difference(("dnnl",), f"arg{name}_of_{what}", "TVM passes over NaN, or finds place -1; "
                   "for dnnl NaN is the largest",
                   partial(of_order, place=0, axis=axis, descending=name == "max", is_index=True))
        for name in ("max", "min")
        for axis, what in enumerate(("columns", "rows"))
    ),
    Difference(ONNX, "resize2d_linear", "ONNX Runtime multiplies an infinite neighbour by a weight of 0",
               between_infinities),
    *(
        Difference(ONNX, f"arg{name}_of_{what}", "TVM passes over NaN, and finds place -1 among infinities; "
                   "ONNX Runtime finds the first one that none exceeds",
                   partial(first_extreme, axis=axis, is_better=is_better))
        for name, is_better in (("max", np.greater), ("min", np.less))
        for axis, what in enumerate(("columns", "rows"))
    ),
)  # fmt: skip
"""Each of them explains something, which a test checks."""
