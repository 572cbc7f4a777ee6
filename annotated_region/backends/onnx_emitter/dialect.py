"""What an engine takes of ONNX: the opset, the data types, and the kernels that take fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from annotated_region.targets.translation import require

__all__ = ["Dialect", "Restriction"]

Restriction: TypeAlias = Callable[[Mapping[str, object], Sequence[str]], str | None]
"""Why an engine does not take an operator with these attributes, for data of these types; None if it does."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a target takes of ONNX.

    Attributes
    ----------
    target
        The name of the target.
    opset
        The version of the ONNX operator set that is written for it.
    dtypes
        The data types that a tensor may have.
    kernels
        For an ONNX operator that takes fewer of them: the data types of its data.
    restrictions
        For an ONNX operator that takes not all attributes, or not for all data types: from the attributes and
        the data types of its data to a reason, or None.
    missing
        ONNX operators that the target does not have.
    wider
        For a data type: the one in which an operator computes that has no kernel for it. Each value of the
        first type is one of the second, and the result is converted back.
    wide_truth
        The operators that may compute on 0 and 1 in place of truth values, whose result is 0 or 1 again.
    narrowed
        For a data type whose values the target keeps in a smaller one: that one. Its kernels take the former
        where all values are known to fit: extents, places, and constants that do.
    max_rank
        The most axes that a tensor may have.
    max_elements
        The most elements that a tensor of known shape may have.
    allows_empty
        Whether a tensor may have an extent of zero.
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

    def require_dtype(self, dtype: str) -> None:
        """Decline a tensor of a data type that the target does not know."""
        require(
            dtype in self.dtypes,
            f"data type {dtype or 'unknown'} is none of {', '.join(sorted(self.dtypes))}",
        )

    def no_kernel(self, operator: str, dtypes: Sequence[str], attrs: Mapping[str, object]) -> str | None:
        """Why the target does not take an ONNX operator over data of these types; None if it does."""
        if operator in self.missing:
            return f"{self.target} has no operator {operator}"
        if operator in self.restrictions:
            reason = self.restrictions[operator](attrs, dtypes)
            if reason is not None:
                return f"{self.target} computes {operator} for less: {reason}"
        known = self.kernels.get(operator)
        unknown = [] if known is None else [dtype for dtype in dtypes if dtype not in known]
        if known is None or not unknown:
            return None
        return f"{self.target} computes {operator} for {', '.join(sorted(known))}, not {unknown[0]}"

    def wide(self, operator: str, dtype: str, attrs: Mapping[str, object]) -> str | None:
        """The data type in which an operator can stand in for one over `dtype`; None if there is none."""
        wider = self.wider.get(dtype)
        if wider is None or (dtype == "bool" and operator not in self.wide_truth):
            return None
        return wider if self.no_kernel(operator, [wider], attrs) is None else None
