"""The cost of an answer, with what it pays for a resource, as a line over the price of the resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["PriceLine"]

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class PriceLine(Generic[Answer]):
    """The relaxed cost of an answer as a line over the price of one resource.

    Attributes
    ----------
    answer
        The answer.
    cost
        Its cost at a price of zero, without the refunds for all resources.
    over
        Its use of the resource minus the available amount: the slope of the line.
    """

    answer: Answer
    cost: float
    over: float

    def crossing(self, other: PriceLine[Answer]) -> float:
        """The price at the intersection of both lines; this one has the larger slope."""
        return max(0.0, other.cost - self.cost) / (self.over - other.over)
