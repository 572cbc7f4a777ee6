"""The names of the methods that choose ranges; `ranges` defines them."""

from __future__ import annotations

__all__ = ["RANGES"]

RANGES = ("minmax", "percentile", "entropy", "mse")
