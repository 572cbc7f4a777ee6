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
    max_rank: int = 32
    max_elements: int | None = None
    allows_empty: bool = False

    def require_dtype(self, dtype: str) -> None:
        """Decline a tensor of a data type that the target does not know."""
        require(
            dtype in self.dtypes,
            f"data type {dtype or 'unknown'} is none of {', '.join(sorted(self.dtypes))}",
        )

    def require_kernel(self, operator: str, dtypes: Sequence[str], attrs: Mapping[str, object]) -> None:
        """Decline an ONNX operator over data of a type, or with attributes, that the target does not take."""
        if operator in self.restrictions:
            reason = self.restrictions[operator](attrs, dtypes)
            require(reason is None, f"{self.target} computes {operator} for less: {reason}")
        known = self.kernels.get(operator)
        if known is None:
            return
        for dtype in dtypes:
            require(
                dtype in known,
                f"{self.target} computes {operator} for {', '.join(sorted(known))}, not {dtype}",
            )
