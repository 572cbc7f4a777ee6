"""Shared test utilities for passes, pipelines and backends: models, graphs, strategies, the conformance kit.

The strategies are imported lazily, because they need Hypothesis, which is not a dependency of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from annotated_region.testing.strategies import (
        TARGETS,
        Ingredients,
        annotated_functions,
        claimable,
        claims,
        functions,
        modules,
        region_sets,
    )

__all__ = [
    "TARGETS",
    "Ingredients",
    "annotated_functions",
    "claimable",
    "claims",
    "functions",
    "modules",
    "region_sets",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from annotated_region.testing import strategies  # noqa: PLC0415

    return getattr(strategies, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
