"""Where a target may differ from TVM about NaN and infinity, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["DIFFERENCES", "Difference"]

ONNX = ("onnxruntime", "tensorrt")
ALL = ("dnnl", *ONNX)
KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "nan": np.isnan,
    "infinity": np.isinf,
    "number": np.isfinite,
    "edge": lambda array: np.abs(array) > 0.999 * np.finfo("float32").max,
    "zero": lambda array: array == 0,
    "lowest": lambda array: array == np.finfo("float32").min,
    "any": lambda array: np.ones(array.shape, bool),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One opinion.

    Attributes
    ----------
    targets
        Whose.
    cases
        A regular expression of their whole names.
    wanted, found
        The kinds of TVM's answer and of the target's.
    reason
        What each of them computes.
    instead
        The target's answer, from the operands, where a kind would not say enough.
    """

    targets: tuple[str, ...]
    cases: str
    wanted: str
    found: str
    reason: str
    instead: Callable[..., np.ndarray] | None = None

    def concerns(self, target: str, case: str) -> bool:
        """Whether it is about a case of a target."""
        return target in self.targets and re.fullmatch(self.cases, case) is not None

    def explains(self, given: list[np.ndarray], wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Which elements it is about."""
        of_kind = np.asarray(KINDS[self.wanted](wanted) & KINDS[self.found](found))
        if self.instead is None:
            return of_kind
        return np.asarray(of_kind & (found == np.broadcast_to(self.instead(*given), found.shape)))


def _is_unequal(left: np.ndarray, right: float | np.ndarray = 0.5) -> np.ndarray:
    return np.asarray(left != right)


DIFFERENCES = (
    Difference(
        ONNX,
        r".*(relu6?|clip|_bound|largest(_zero)?|hardswish|batch_norm_constant|clip_between_infinities|matmul_bias)",
        "any",
        "nan",
        "TVM's clip gives the upper bound, its maximum the second operand; ONNX keeps NaN",
    ),
    Difference(
        ONNX,
        r"(maximum|minimum)_.*",
        "any",
        "nan",
        "TVM gives the second operand where one is NaN; ONNX keeps NaN",
    ),
    Difference(
        ("dnnl",),
        r"batch_norm_constant|conv2d_norm_relu|group_norm_relu",
        "zero",
        "any",
        "TVM's relu of NaN is 0; the one that is a part of a norm keeps NaN, as ONNX does",
    ),
    Difference(
        ALL,
        r".*not_equal_.*",
        "number",
        "number",
        "TVM finds nothing unequal to NaN; IEEE 754 everything",
        _is_unequal,
    ),
    Difference(ALL, r"times_zero.*", "number", "nan", "TVM makes 0 of x * 0 before x is known"),
    Difference(ONNX, r"sign", "number", "nan", "TVM's sign of NaN is 0; ONNX Runtime's is NaN"),
    Difference(ONNX, r"clip_by_nan", "nan", "any", "ONNX Runtime ignores a bound that is NaN"),
    Difference(
        ONNX,
        r"leakyrelu_infinite|prelu_each|prelu_infinite_slopes",
        "nan",
        "number",
        "TVM multiplies 0 by the infinite slope; ONNX only what is below 0",
    ),
    Difference(
        ALL,
        r"max_pool.*",
        "nan",
        "number",
        "NaN is not larger than what was found so far; TVM's maximum keeps it",
    ),
    Difference(
        ALL, r"max_pool.*", "lowest", "any", "TVM begins with the lowest finite number, and anew behind NaN"
    ),
    Difference(
        ("dnnl",),
        r"conv[123]d(_depthwise)?",
        "nan",
        "any",
        "TVM multiplies the padding by computed weights that are not finite; constant ones are declined",
    ),
    Difference(
        ALL,
        r"conv[123]d_transpose|conv2d_infinite_weights",
        "nan",
        "any",
        "TVM multiplies the zeros around the data by weights that are not finite",
    ),
    Difference(
        ONNX,
        r"attention_(TopLeft|BottomRight)",
        "nan",
        "number",
        "all that is seen is -inf: TVM's softmax is NaN; hidden scores are finite in ONNX",
    ),
    Difference(
        ALL,
        r"attention_.*",
        "edge",
        "edge",
        "means of the largest number alone: rounding decides whether they end",
    ),
    Difference(
        ALL,
        r"batch_norm|conv2d_norm_relu",
        "any",
        "any",
        "TVM multiplies by the inverse deviation, then by the scale; others by their product",
    ),
    Difference(
        ALL, r"batch_norm_constant", "infinity", "number", "likewise: a factor below 1 of the largest number"
    ),
    Difference(
        ALL,
        r"(group|instance|layer)_norm.*",
        "nan",
        "any",
        "squares of the largest number: TVM's overflow, sums in double precision do not",
    ),
    Difference(
        ONNX,
        r"(group|instance)_norm.*",
        "any",
        "any",
        "ONNX Runtime normalises, then multiplies by the scale; TVM by the product of both",
    ),
    Difference(("dnnl",), r"group_norm_silu", "zero", "nan", "and SiLU of minus infinity is NaN, as TVM's"),
    Difference(
        ALL, r"(max|min)_of_.*", "number", "nan", "TVM forgets NaN when a number follows; others do not"
    ),
    Difference(
        ONNX, r"(max|min)_of_.*", "nan", "number", "ONNX Runtime's vectors forget NaN in other places"
    ),
    Difference(
        ("dnnl",),
        r"(group|instance)_norm.*",
        "number",
        "infinity",
        "the scale is multiplied by the factor before the data is, which TVM does in another order",
    ),
    Difference(
        ALL,
        r"(max|min)_of_.*",
        "number",
        "infinity",
        "of infinities alone; TVM begins with the outermost finite number",
    ),
    Difference(
        ONNX,
        r"arg(max|min)_of_.*",
        "number",
        "number",
        "TVM passes over NaN, and finds place -1 among infinities; ONNX Runtime finds one",
    ),
    Difference(ONNX, r"topk", "any", "any", "where NaN stands in an order"),
    Difference(
        ONNX,
        r"resize2d_linear",
        "infinity",
        "nan",
        "ONNX Runtime multiplies an infinite neighbour by a weight of 0",
    ),
)
