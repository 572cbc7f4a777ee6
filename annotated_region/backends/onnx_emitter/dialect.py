"""The subset of ONNX that an engine supports: the opset, data types, and data types of each operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from annotated_region.targets.translation import require

__all__ = ["Dialect", "Restriction"]

Restriction: TypeAlias = Callable[[Mapping[str, object], Sequence[str]], str | None]
"""Why an engine does not support an operator with these attributes and data types; None if it does."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The subset of ONNX that a target supports.

    Attributes
    ----------
    target
        The name of the target.
    opset
        The version of the ONNX operator set to emit.
    dtypes
        The data types of tensors.
    kernels
        For ONNX operators that support fewer data types: these types.
    restrictions
        For ONNX operators with restricted attributes: a function from the attributes and data types to a
        reason for rejecting them, or None.
    missing
        ONNX operators that the target does not support.
    wider
        For a data type: the type to compute in if an operator has no kernel for it. It represents every value
        of the first type exactly, and the result is converted back.
    wide_truth
        Operators that may compute on 0 and 1 in place of booleans, because their result is 0 or 1 again.
    narrowed
        For a data type that the target computes in a smaller one: the smaller one. It is supported where all
        values are known to fit into the smaller one: extents, positions, and constants in its range.
    max_rank
        The maximum rank of a tensor.
    max_elements
        The maximum number of elements of a tensor with a static shape.
    allows_empty
        Whether a tensor may have an extent of zero.
    reads_empty_rows
        ONNX operators that read a number of each row, also where the rows have none.
    reshapes_permutations
        Whether permutations that move only axes of extent 1 are reshapes that copy extents of 0.
    fails_without_pixels
        Convolutions that do not compute a result with pixels, those of the padding, of an image without.
    ignores_of_recurrences
        Flags of a `RecurrentLoop` that recurrent layers ignore, or for which they compute something else.
    """

    target: str
    opset: int
    dtypes: frozenset[str]
    kernels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    restrictions: Mapping[str, Restriction] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    wider: Mapping[str, str] = field(default_factory=dict)
    wide_truth: frozenset[str] = frozenset()
    narrowed: Mapping[str, str] = field(default_factory=dict)
    max_rank: int = 32
    max_elements: int | None = None
    allows_empty: bool = False
    reads_empty_rows: frozenset[str] = frozenset()
    reshapes_permutations: bool = False
    fails_without_pixels: frozenset[str] = frozenset()
    ignores_of_recurrences: frozenset[str] = frozenset()

    def require_dtype(self, dtype: str) -> None:
        """Decline a tensor of an unsupported data type."""
        require(
            dtype in self.dtypes,
            f"data type {dtype or 'unknown'} is none of {', '.join(sorted(self.dtypes))}",
        )

    def no_kernel(self, operator: str, dtypes: Sequence[str], attrs: Mapping[str, object]) -> str | None:
        """Why the target does not support an ONNX operator on these data types; None if it does."""
        if operator in self.missing:
            return f"{self.target} has no operator {operator}"
        if operator in self.restrictions:
            reason = self.restrictions[operator](attrs, dtypes)
            if reason is not None:
                return f"{self.target} does not support {operator} here: {reason}"
        known = self.kernels.get(operator)
        unknown = [] if known is None else [dtype for dtype in dtypes if dtype not in known]
        if known is None or not unknown:
            return None
        return f"{self.target} supports {operator} for {', '.join(sorted(known))}, not {unknown[0]}"

    def wide(self, operator: str, dtype: str, attrs: Mapping[str, object]) -> str | None:
        """The data type that an operator can compute in instead of `dtype`; None if there is none."""
        wider = self.wider.get(dtype)
        if wider is None or (dtype == "bool" and operator not in self.wide_truth):
            return None
        return wider if self.no_kernel(operator, [wider], attrs) is None else None
