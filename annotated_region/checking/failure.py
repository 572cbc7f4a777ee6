"""A region that is wrong in one call, or the smallest part of it that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from annotated_region.checking.program import PlacedFunction
from annotated_region.checking.reference import HOST
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.tolerance import Tolerance
from annotated_region.ids import NodeId

__all__ = ["Failure"]


@dataclass(frozen=True)
class Failure:
    """What went in, what came out, and what should have come.

    Attributes
    ----------
    function
        The region.
    nodes
        Its nodes that are wrong together: all, or a part.
    values
        What entered, as the host computed it.
    wanted, found
        By name, the results of the host and of the target; the target has none where it raised.
    tolerance
        How far they might have been apart.
    options
        By target, the options of its code generator.
    error
        What the target raised; empty if it answered.
    reference
        What computed the wanted results.
    """

    function: PlacedFunction
    nodes: tuple[NodeId, ...]
    values: RegionValues
    wanted: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    tolerance: Tolerance
    options: Mapping[str, Mapping[str, object]]
    error: str = ""
    reference: str = HOST
