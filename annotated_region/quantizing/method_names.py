"""The names of the methods that choose ranges; `ranges` has what they mean."""

from __future__ import annotations

__all__ = ["RANGES"]

RANGES = ("minmax", "percentile", "entropy", "mse")
