"""The times of the primitives of a region in its last run, which the runtime always measures."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from annotated_region.targets.backend import StepTime

__all__ = ["step_times"]


def step_times(library: tvm.runtime.Module, symbol: str) -> Sequence[StepTime]:
    """Parse ``<symbol>__times()``: one step per line, nanoseconds and the label of the primitive."""
    lines = str(library.get_function(f"{symbol}__times", query_imports=True)()).splitlines()
    parts = (line.partition(" ") for line in lines)
    return [StepTime(label, 1e-9 * int(nanoseconds)) for nanoseconds, _space, label in parts]
